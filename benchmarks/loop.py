"""Times our whole loop against a plain one on the same model: `python -m benchmarks.loop`.

Ours is a job as a sweep starts it, with Fabric, rows of metrics, checkpoints and liveness; the
plain loop is what one would write by hand, and keeps nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from benchmarks.measure import Facts, arguments, leave, speed_ups, turns

if __name__ == "__main__":
    arguments(__doc__)  # --help is answered before torch is imported

import torch
from torch import nn

from benchmarks.one_run import execute
from benchmarks.runs import forget, frozen, opened
from benchmarks.shapes import alone
from sweeper.store.runs import Run
from tasks.training import loop
from tasks.training.module import adamw

SHAPES = {
    "demo-d32": ("model.embedding_size=32", "model.heads=4"),
    "tiny32": (
        "model.embedding_size=64",
        "model.heads=8",
        "model.head_size=32",
        "model.feedforward_size=256",
        "task.vocabulary_size=4096",
        "task.sequence_length=256",
        "task.batch_tokens=2048",
    ),
    "d256-h8": (
        "model.layers=6",
        "model.embedding_size=256",
        "model.heads=8",
        "model.head_size=32",
        "model.feedforward_size=1024",
        "task.vocabulary_size=32768",
        "task.sequence_length=256",
        "task.batch_tokens=512",
    ),
}
STEPS = {"demo-d32": 300, "tiny32": 60, "d256-h8": 60}
WARMUP = "optimizer.warmup_steps=1"


def results(smoke: bool) -> Iterator[Facts]:
    alone()
    shapes = {"demo-d32": SHAPES["demo-d32"]} if smoke else SHAPES
    for name, overrides in shapes.items():
        steps, rounds = (3, 1) if smoke else (STEPS[name], 3)
        with TemporaryDirectory() as folder:
            settings = (*overrides, WARMUP, f"trainer.steps={steps}", "seed=0", "logger=none")
            [run] = frozen(Path(folder), *settings)
            times = turns({"headroom": partial(_job, run), "plain": partial(_plain, run)}, rounds)
        yield {
            "shape": name,
            "steps": steps,
            "rounds": rounds,
            "ms_per_step": {k: round(1e3 * median(v) / steps, 3) for k, v in times.items()},
            "speed_up": speed_ups(times, "headroom", ["plain"]),
        }


def _job(run: Run) -> float:
    """CPU seconds of the training of a job, from its first step to its last checkpoint."""
    seconds = []
    train = loop.train

    def timed(*given: Any) -> torch.device:
        begun = time.process_time()
        device = train(*given)
        seconds.append(time.process_time() - begun)
        return device

    with patch("tasks.training.job.train", timed):
        execute(run.path)
    forget(run)
    return seconds[0]


def _plain(run: Run) -> float:
    """CPU seconds of the same steps in a loop without anything around it."""
    task = opened(run)
    torch.manual_seed(task.config.seed)
    model = task.build()
    optimizer = adamw(model, task.config.optimizer)
    clip = task.config.optimizer.gradient_clip
    begun = time.process_time()
    for step in range(1, task.config.trainer.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = task.learning_rate(step)
        loss = sum(mean.total / mean.count for mean in task.loss(model, task.data.batch(step)))
        loss.backward()  # type: ignore[union-attr]
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
    return time.process_time() - begun


if __name__ == "__main__":
    leave(results)
