"""The embedded corpus: gatherings of the invented world, in LM1B's format and file layout.

A sentence names who came, then tells of each twice, the family before the name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from sweeper.store.files import make_directory, new_file
from tasks.synthetic.families import Sample, StableRandom, World

LAYOUT = "1-billion-word-language-modeling-benchmark-r13output"
TRAIN_SHARD = "training-monolingual.tokenized.shuffled/news.en-00001-of-00100"
TEST_SHARD = "heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050"
TEST_EVERY = 50  # every 50th sentence is held out
HASHED = 500  # sentences that tell one generator from another


def generate(world: World) -> Iterator[str]:
    """Yield sentences without end, always the same ones."""
    rng = StableRandom("sample")
    while True:
        came, _ = world.gathering(rng)
        mentioned = [world.mentioned(one, rng) for one in (*rng.mixed(came), *rng.mixed(came))]
        again = " ".join(f"{person.family.name} {person.name}" for person in mentioned)
        yield f"Came {' '.join(person.name for person in came)} : {again} ."


def _beginning(sentences: int, world: World) -> str:
    return "\n".join(itertools.islice(generate(world), min(sentences, HASHED)))


def _write(folder: Path, sentences: int, world: World) -> None:
    training, held_out = (folder / LAYOUT / name for name in (TRAIN_SHARD, TEST_SHARD))
    if not held_out.exists():  # which appears last
        for part in (folder, training.parent, held_out.parent):
            make_directory(part)
        with _new_text(held_out) as test, _new_text(training) as train:
            for number, sentence in enumerate(itertools.islice(generate(world), sentences), 1):
                (train if number % TEST_EVERY else test).write(f"{sentence}\n")


@contextmanager
def _new_text(path: Path) -> Iterator[TextIO]:
    with (
        new_file(path) as descriptor,
        open(descriptor, "w", encoding="utf-8", closefd=False) as file,
    ):
        yield file


SAMPLE = Sample("sample", "sentences", _beginning, _write)
