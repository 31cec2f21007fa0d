"""Holds predicted memory against a real process's: `python -m benchmarks.memory`.

Each shape trains two steps on a CPU in a process of its own, and what that takes at most is its
peak of resident memory, less what was resident before the model was built. A step of the same shape
has gone before: what libraries load, and keep as room to work in, is not counted. glibc maps every
block of a page or more, so that what is freed is given back. Beside it stands the peak that
tasks/memory.py predicts of a CPU. Rows are of zeros, one text each, as in the prediction.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import Facts, arguments, leave

if __name__ == "__main__":
    arguments(__doc__)  # --help is answered before torch is imported

from benchmarks.runs import planned
from sweeper.size_server import SizeServer

MAPPED = {"MALLOC_MMAP_THRESHOLD_": "4096", "MALLOC_MMAP_MAX_": "1000000"}
# Widths, layers and words are each scale's; of the gpu scale there are fewer rows, in the single
# precision that a CPU computes in: a step at its 32,768 tokens takes minutes here.
FEW_ROWS = ("task.batch_tokens=2048", "trainer.precision=32-true")
SHAPES = {
    "demo lm1b": ("scale=demo",),
    "demo lm1b, 16 heads": ("scale=demo", "model.heads=16"),
    "demo pretraining": ("scale=demo", "task=pretraining"),
    "cpu lm1b": ("scale=cpu",),
    "cpu lm1b, d32 x 32 heads": ("scale=cpu", "model.heads=32", "model.head_size=32"),
    "cpu pretraining": ("scale=cpu", "task=pretraining"),
    "gpu lm1b d256 h8": ("scale=gpu", "model.embedding_size=256", "model.heads=8", *FEW_ROWS),
    "gpu lm1b d512 h8": ("scale=gpu", "model.embedding_size=512", "model.heads=8", *FEW_ROWS),
}
STEPS = 2  # moments are there from the second


def results(smoke: bool) -> Iterator[Facts]:
    os.environ |= MAPPED  # glibc reads it as a process starts
    shapes = dict(list(SHAPES.items())[:1]) if smoke else SHAPES
    configs = _configs(shapes)
    found: dict[str, dict[str, float]] = {}
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        for name, config in configs.items():
            measured, predicted = pool.submit(measure, config).result()
            found[name] = {
                "measured_mb": round(measured / 1e6, 2),
                "predicted_mb": round(predicted / 1e6, 2),
                "ratio": round(predicted / measured, 3),
            }
    error = {name: abs(shape["ratio"] - 1) for name, shape in found.items()}
    facts = {"median": round(median(error.values()), 3), "most": round(max(error.values()), 3)}
    yield {"shapes": found, "error": facts}


def measure(config: Mapping[str, Any]) -> tuple[int, int]:
    """The bytes that training takes of this process at most, and those that are predicted."""
    from tasks.memory import memory

    _train(config)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is from now on
    before = _resident("VmRSS")
    _train(config)
    return _resident("VmHWM") - before, memory(config, accelerator="cpu")["training"]


def _train(config: Mapping[str, Any]) -> None:
    """What tasks/training/loop.py does in a step, with batches of zeros."""
    from tasks.parse import parse
    from tasks.prepare import task_of
    from tasks.training.loop import clip
    from tasks.training.module import TrainingModule

    task = task_of(parse(config))
    module = TrainingModule(task, task.build().train())
    optimizer = module.configure_optimizers()
    for step in range(1, STEPS + 1):
        for batch in task.training_batches():
            optimizer.zero_grad()
            loss = module.training_step(batch, step)
            loss.backward()  # type: ignore[no-untyped-call]
            clip(module, task.config.optimizer.gradient_clip)
            optimizer.step()


def _resident(what: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    [kilobytes] = [int(line.split()[1]) for line in lines if line.startswith(what)]
    return kilobytes * 1024


def _configs(shapes: Mapping[str, tuple[str, ...]]) -> dict[str, Mapping[str, Any]]:
    with TemporaryDirectory() as folder, SizeServer() as process:
        plans = {name: planned(process, folder, *typed) for name, typed in shapes.items()}
    return {name: next(iter(plan.runs.values())).config for name, plan in plans.items()}


if __name__ == "__main__":
    leave(results)
