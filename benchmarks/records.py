"""Collects and draws 100 to 10,000 finished runs: `python -m benchmarks.records`.

Both are the commands that a person types, each run with the whole config of a record. The figure
has 100 points and the rest are more seeds of them: one of 2,000 points would have a thousand
curves, which nobody draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from benchmarks.measure import Called, Facts, call, leave
from sweeper.hydra_section import composer
from sweeper.store.plans import write_plan
from sweeper.store.runs import RunStore

RECORDS = (100, 1_000, 10_000)
COMMANDS = ("collect", "draw")
POINTS = 100
METRIC = "test/perplexity"


def results(smoke: bool) -> Iterator[Facts]:
    rounds, counts = (1, (10,)) if smoke else (3, RECORDS)
    measured = {str(count): _measured(count, rounds) for count in counts}
    yield {
        "rounds": rounds,
        "cpu_seconds": _medians(measured, "cpu_s"),
        "wall_seconds": _medians(measured, "wall_s"),
    }


Measured = dict[str, list[Called]]
"""What each command took in each round."""


def _measured(count: int, rounds: int) -> Measured:
    with TemporaryDirectory() as folder:
        with patch("os.fsync"):  # nothing here has to outlive a power cut
            finish(Path(folder), count)
        taken: Measured = {command: [] for command in COMMANDS}
        for _ in range(rounds):
            for command in COMMANDS:
                taken[command].append(call("-m", "sweeper", command, f"--outputs={folder}"))
        return taken


def _medians(measured: Mapping[str, Measured], clock: str) -> dict[str, dict[str, float]]:
    return {
        count: {
            command: round(median(getattr(one, clock) for one in called), 2)
            for command, called in commands.items()
        }
        for count, commands in measured.items()
    }


def finish(outputs: Path, count: int) -> None:
    """Write a plan of two arms and its `count` runs, all of them done."""
    store, whole = RunStore(outputs), composer().base(["task=lm1b"]).run({})
    points, runs = [], {}
    for number in range(count):
        seed, point = divmod(number, POINTS)
        arm, heads = ("standard", "fixed")[point % 2], 1 + point // 2
        size = _size(heads)
        id = f"lm1b-{arm}-h{heads}-s{seed}"
        model = {**whole["model"], "embedding_size": 64, "heads": heads, "head_size": 16}
        names = {"experiment": "many", "arm": arm, "label": id}
        config = {**whole, "seed": seed, "model": model}
        run = store.freeze({"id": id, "config": config, "size": size, "names": names})
        attempt = run.claim({})
        metrics = {METRIC: 3 + 1 / heads + seed / 100}
        run.publish_result(attempt, {"metrics": metrics, "steps": 1, "seconds": 1.0})
        attempt.finish("done")
        points.append(
            {"experiment": "many", "arm": arm, "seed": seed, "run": id, "matched": None}
            | {"values": {"model.heads": heads}}
        )
        runs[id] = {"size": size, "parent": None}
    plan = {"command": ["benchmark"], "scale": "demo", "experiments": {"many": EXPERIMENT}}
    write_plan(outputs, {**plan, "points": points, "runs": runs})


EXPERIMENT: dict[str, Any] = {
    "title": "many runs",
    "metric": METRIC,
    "x": "params_total",
    "figure": "fig1",
    "claims": ["standard_worsens_beyond", "fixed_keeps_improving"],
    "arms": {arm: {"label": arm} for arm in ("standard", "fixed")},
}


def _size(heads: int) -> dict[str, int]:
    rest = 512 * heads
    total = 10_000 + rest
    counts = {"params_total": total, "params_non_embedding": rest, "flops_per_token": 6 * total}
    return {**counts, "head_size": 16, "width": 16 * heads}


if __name__ == "__main__":
    leave(results)
