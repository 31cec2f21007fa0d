"""Times the data pipeline beside `datasets` and a DataLoader: `python -m benchmarks.data`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.measure import Facts, arguments, interleaved, leave, speed_ups

if __name__ == "__main__":
    arguments(__doc__)  # --help is answered before torch is imported

import datasets
import torch
from torch.utils.data import DataLoader

from benchmarks.runs import frozen, opened
from benchmarks.shapes import SHAPES, SMOKE, Batch, Shape, alone, headroom, step
from tasks.lm1b.task import LanguageModel


def results(smoke: bool) -> Iterator[Facts]:
    alone()
    [(name, shape)] = SMOKE.items() if smoke else [("tiny32", SHAPES["tiny32"])]
    batches, rounds = (2, 2) if smoke else (100, 7)
    with TemporaryDirectory() as folder:
        [run] = frozen(Path(folder), *_settings(shape, smoke=smoke))
        task = opened(run)
        assert isinstance(task, LanguageModel)
        loader = _usual_loader(task, shape.rows)
        train = step(*headroom(shape, Batch.drawn(shape), compiled=False))
        steps = itertools.count(1)

        def ours() -> None:
            for _ in range(batches):
                task.data.batch(next(steps))

        def usual() -> None:
            for _ in itertools.islice(loader, batches):
                pass

        times = interleaved({"headroom": ours, "datasets": usual, "step": train}, rounds)
    times["step"] = [batches * seconds for seconds in times["step"]]
    tokens = batches * shape.tokens
    yield {
        "shape": name,
        "rounds": rounds,
        "tokens_per_second": {k: round(tokens / median(v)) for k, v in times.items()},
        "speed_up": speed_ups(times, "headroom", ("step", "datasets")),
    }


def _settings(shape: Shape, *, smoke: bool) -> list[str]:
    return [
        f"task.sequence_length={shape.length}",
        f"task.batch_tokens={shape.tokens}",
        *(["data.sentences=500", "task.vocabulary_size=300"] if smoke else []),
        "seed=0",
        "logger=none",
    ]


def _usual_loader(task: LanguageModel, rows: int) -> DataLoader:  # type: ignore[type-arg]
    """The same rows as a `datasets` table of tensors, shuffled, behind a DataLoader."""
    split = task.data.splits["train"]
    table: dict[str, list[object]] = {}
    for first in range(len(split)):
        for key, value in split.rows(torch.tensor([first]).numpy()).items():
            table.setdefault(key, []).append(value[0])
    made = datasets.Dataset.from_dict(table).with_format("torch")
    return DataLoader(made, batch_size=rows, shuffle=True, drop_last=True)


if __name__ == "__main__":
    leave(results)
