"""Asks for the status of 10,000 runs: `python -m benchmarks.status`.

They are done, failed, interrupted, blocked and new, and two run; what is asked is the whole command
`python -m sweeper status --json`, in a fresh process each time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from benchmarks.measure import Facts, call, leave, spread
from sweeper.store.files import publish_with_checksum
from sweeper.store.identity import run_id
from sweeper.store.plans import write_plan
from sweeper.store.runs import Run, RunStore

RUNS = 10_000
# By the last digit of a run's number: what became of it. The rest are new.
ENDS = {**dict.fromkeys(range(6), "done"), 6: "crash", 7: "interrupted"}


def results(smoke: bool) -> Iterator[Facts]:
    runs, rounds = (30, 1) if smoke else (RUNS, 5)
    with TemporaryDirectory() as folder:
        with patch("os.fsync"):  # nothing here has to outlive a power cut
            fill(Path(folder), runs)
        asked = ("-m", "sweeper", "status", "--json", "--outputs", folder)
        told = [call(*asked) for _ in range(rounds)]
    assert all(len(json.loads(one.output)) == runs for one in told), "runs are not told"
    yield {
        "runs": runs,
        "rounds": rounds,
        "wall_s": spread([one.wall_s for one in told]),
        "cpu_s": spread([one.cpu_s for one in told]),
    }


def fill(outputs: Path, runs: int) -> None:
    """Write a store of so many runs and their plan; every ninth new one waits for a failed one."""
    from tests.faults.small import SMALL  # late: it imports torch

    store = RunStore(outputs)
    configs = [{**SMALL, "seed": seed} for seed in range(runs)]
    ids = [run_id(config) for config in configs]
    for number, (name, config) in enumerate(zip(ids, configs, strict=True)):
        run = store.run(name)
        run.path.mkdir(parents=True)
        names = {"experiment": "many", "arm": "many", "label": f"seed={number}"}
        record = {"format": 1, "id": name, "config": config, "size": {}, "names": names}
        publish_with_checksum(run.path / "run.json", record)
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
    attempt.heartbeat(step=40, steps=60, loss=3.25, tokens_per_second=1e4, phase="train")
    if how == "done":
        metrics = {f"test/metric_{number}": 1 / (number + 1) for number in range(7)}
        run.publish_result(attempt, {"metrics": metrics, "steps": 60, "seconds": 55.0})
    if how:
        attempt.finish(how, "what went wrong")


if __name__ == "__main__":
    leave(results)
