"""Times how cost grows with heads and with finished runs: `python -m benchmarks.growth`.

A step of the small decoder with 4 to 70 heads, and collecting and drawing 100 to 10,000 records of
a figure of a hundred points.
How it grows with planned runs is what benchmarks.planning says.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from unittest.mock import patch

import torch

from benchmarks.measure import arguments, interleaved, leave
from benchmarks.shapes import SHAPES, SMOKE, Batch, headroom, step
from sweeper.results.collect import write_tables
from sweeper.results.draw import write_figures
from sweeper.store.plans import write_plan
from sweeper.store.runs import RunStore
from tasks.machine import keep_memory

HEADS = (4, 8, 16, 32, 70)
RECORDS = (100, 1_000, 10_000)
POINTS = 100  # of the figure; the rest of the records are more seeds of these
METRIC = "test/perplexity"


def main() -> None:
    """Measure both and leave a line each."""
    options = arguments(__doc__ or "")
    torch.set_num_threads(1)
    keep_memory()
    [shape] = SMOKE.values() if options.smoke else [SHAPES["tiny32"]]
    torch.manual_seed(0)
    steps, flops = {}, {}
    for heads in HEADS[:2] if options.smoke else HEADS:
        wider = replace(shape, heads=heads)
        steps[str(heads)] = step(*headroom(wider, Batch.drawn(wider), compiled=False))
        flops[str(heads)] = wider.training_flops()
    rounds = 2 if options.smoke else 5
    times = {heads: median(values) for heads, values in interleaved(steps, rounds).items()}
    leave(
        options.lines,
        "heads",
        {
            "rounds": rounds,
            "ms": {heads: round(1e3 * seconds, 1) for heads, seconds in times.items()},
            "gflops_per_second": {h: round(flops[h] / s / 1e9, 1) for h, s in times.items()},
        },
    )
    seconds = {str(n): _collected(n) for n in ((10,) if options.smoke else RECORDS)}
    leave(options.lines, "records", {"cpu_seconds": seconds})


def _collected(count: int) -> dict[str, float]:
    """CPU seconds of tables and of figures of that many finished runs."""
    with TemporaryDirectory() as folder:
        with patch.object(os, "fsync", lambda _: None):  # durably it would take minutes
            _finished(Path(folder), count)
        begun = time.process_time()
        [_] = write_tables(Path(folder))
        between = time.process_time()
        assert write_figures(Path(folder))
        ended = time.process_time()
    return {"collect": round(between - begun, 2), "draw": round(ended - between, 2)}


def _finished(outputs: Path, count: int) -> None:
    """A finished experiment of so many runs: two arms of points, with as many seeds as it takes."""
    store = RunStore(outputs)
    points, runs = [], {}
    for number in range(count):
        seed, point = divmod(number, POINTS)
        arm, heads = ("standard", "fixed")[point % 2], 1 + point // 2
        size = {"params_total": 10_000 + 512 * heads, "params_non_embedding": 512 * heads}
        size |= {"flops_per_token": 6 * size["params_total"], "head_size": 16, "width": 16 * heads}
        id = f"lm1b-{arm}-h{heads}-s{seed}"
        model = {"name": "decoder", "embedding_size": 64, "heads": heads, "head_size": 16}
        config = {"seed": seed, "model": model, "task": {"name": "lm1b"}}
        names = {"experiment": "many", "arm": arm, "label": id}
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
    experiment = {
        "title": "many runs",
        "metric": METRIC,
        "x": "params_total",
        "figure": "fig1",
        "claims": ["standard_worsens_beyond", "fixed_keeps_improving"],
        "arms": {arm: {"label": arm} for arm in ("standard", "fixed")},
    }
    plan = {"command": ["benchmark"], "scale": "demo", "experiments": {"many": experiment}}
    write_plan(outputs, {**plan, "points": points, "runs": runs})


if __name__ == "__main__":
    main()
