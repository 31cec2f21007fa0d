"""Asks for the status of 10,000 runs: `python benchmarks/status.py [RUNS]`.

Makes a store of done, failed, interrupted, blocked and new runs, and two that run; then times
`python -m sweeper status --json` from its start to its end, in a fresh process each time. Prints a
line of JSON: seconds of wall and of CPU time, the median and the least of five.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.small import SMALL
from sweeper.store.files import publish_sealed
from sweeper.store.identity import run_id
from sweeper.store.plans import write_plan
from sweeper.store.runs import Run, RunStore

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 5
# By the last digit of a run's number: what became of it. The rest are new.
ENDS = {**dict.fromkeys(range(6), "done"), 6: "crash", 7: "interrupted"}


def main(runs: int) -> None:
    """Make the store, ask, print."""
    with TemporaryDirectory() as folder:
        outputs = Path(folder) / "outputs"
        fill(outputs, runs)
        command = [sys.executable, "-m", "sweeper", "status", "--json", "--outputs", str(outputs)]
        wall, cpu = [], []
        for _ in range(ROUNDS):
            begun, used = time.monotonic(), _cpu_seconds()
            told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
            wall.append(time.monotonic() - begun)
            cpu.append(_cpu_seconds() - used)
        lines = json.loads(told.stdout)
    print(
        json.dumps(
            {
                "benchmark": "status",
                "runs": len(lines),
                "wall_s": round(median(wall), 2),
                "least_wall_s": round(min(wall), 2),
                "cpu_s": round(median(cpu), 2),
                "least_cpu_s": round(min(cpu), 2),
                "load": os.getloadavg()[0],
            }
        )
    )


def fill(outputs: Path, runs: int) -> None:
    """A store of so many runs, and the plan that has them: every ninth new run waits for a failed
    one."""
    store = RunStore(outputs)
    configs = [{**SMALL, "seed": seed} for seed in range(runs)]
    ids = [run_id(config) for config in configs]
    for number, (name, config) in enumerate(zip(ids, configs, strict=True)):
        run = store.run(name)
        run.path.mkdir(parents=True)
        names = {"experiment": "many", "arm": "many", "label": f"seed={number}"}
        record = {"format": 1, "id": name, "config": config, "size": {}, "names": names}
        publish_sealed(run.path / "run.json", record)
        _end(run, ENDS.get(number % 10), running=number in (8, 9))
    sizes = {"size": {"tokens": 10**6}, "parent": None}
    parents = {number: ids[number - 3] for number in range(9, runs, 90)}
    write_plan(
        outputs,
        {
            "command": [],
            "scale": "demo",
            "experiments": {"many": {"title": "many"}},
            "points": [{"experiment": "many", "arm": "many", "run": name} for name in ids],
            "runs": {
                name: {**sizes, "parent": parents.get(number)} for number, name in enumerate(ids)
            },
            "estimate": dict.fromkeys(ids, 60.0),
        },
    )


def _end(run: Run, how: str | None, *, running: bool) -> None:
    if not how and not running:
        return
    attempt = run.claim({"micro_batches": 1})
    attempt.beat(step=40, steps=60, loss=3.25, tokens_per_second=1e4, phase="train")
    if how == "done":
        metrics = {f"test/metric_{number}": 1 / (number + 1) for number in range(7)}
        run.publish_result(attempt, {"metrics": metrics, "steps": 60, "seconds": 55.0})
    if how:
        attempt.finish(how, "what went wrong")


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    setattr(os, "fsync", lambda _: None)  # noqa: B010  (filling a store durably takes minutes)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
