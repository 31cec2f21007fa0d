"""The embedded corpus: sentences of a small invented world, in LM1B's format and file layout."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from sweeper.store.errors import wrong
from sweeper.store.files import make_directory, new_file
from tasks.synthetic.sentence_templates import TEMPLATES
from tasks.synthetic.world_facts import StableRandom

LAYOUT = "1-billion-word-language-modeling-benchmark-r13output"
TRAIN_SHARD = "training-monolingual.tokenized.shuffled/news.en-00001-of-00100"
TEST_SHARD = "heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050"
TEST_EVERY = 50  # every 50th sentence is held out
HASHED = 500  # sentences that tell one generator from another
FEWEST, MOST = 500, 10_000_000


def generate(sentences: int) -> Iterator[str]:
    """Different sentences, always the same ones: a longer corpus begins with a shorter one."""
    rng, told = StableRandom("sample"), set[str]()
    while len(told) < sentences:
        sentence = rng.pick(TEMPLATES)(rng)
        if sentence not in told:
            told.add(sentence)
            yield sentence


def generator_hash(sentences: int) -> str:
    """What tells this corpus from one of another length or by another version of the generator."""
    _check(sentences)
    text = "\n".join(itertools.islice(generate(sentences), HASHED))
    return hashlib.sha256(f"{sentences}\n{text}".encode()).hexdigest()


def write_sample(folder: Path, sentences: int) -> Path:
    """Write the corpus into `folder` in LM1B's layout, unless it is there; returns `folder`.

    The caller keeps other processes out. Raises UserError for fewer sentences than three splits
    need, and for more than a disk should take.
    """
    _check(sentences)
    training, held_out = (folder / LAYOUT / name for name in (TRAIN_SHARD, TEST_SHARD))
    if not held_out.exists():  # which appears last
        for part in (folder, training.parent, held_out.parent):
            make_directory(part)
        with _new_text(held_out) as test, _new_text(training) as train:
            for number, sentence in enumerate(generate(sentences), start=1):
                (train if number % TEST_EVERY else test).write(f"{sentence}\n")
    return folder


@contextmanager
def _new_text(path: Path) -> Iterator[TextIO]:
    with (
        new_file(path) as descriptor,
        open(descriptor, "w", encoding="utf-8", closefd=False) as file,
    ):
        yield file


def _check(sentences: int) -> None:
    if not FEWEST <= sentences <= MOST:
        raise wrong(
            "data.sentences",
            sentences,
            f"a whole number from {FEWEST} to {MOST}",
            "give it as data.sentences=40000",
        )
