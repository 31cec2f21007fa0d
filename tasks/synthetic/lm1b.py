"""The embedded corpus: sentences of a small invented world, in LM1B's format and file layout."""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

from sweeper.store.errors import wrong
from sweeper.store.files import child, make_directory
from tasks.synthetic.sentence_templates import TELLERS
from tasks.synthetic.world_facts import Chance

LAYOUT = "1-billion-word-language-modeling-benchmark-r13output"
TRAIN_SHARD = "training-monolingual.tokenized.shuffled/news.en-00001-of-00100"
TEST_SHARD = "heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050"
TEST_EVERY = 50  # every 50th sentence is held out
HASHED = 500  # sentences that tell one generator from another
FEWEST, MOST = 500, 10_000_000


def tell(sentences: int) -> Iterator[str]:
    """Different sentences, always the same ones: a longer corpus begins with a shorter one."""
    chance, told = Chance("sample"), set[str]()
    while len(told) < sentences:
        sentence = chance.pick(TELLERS)(chance)
        if sentence not in told:
            told.add(sentence)
            yield sentence


def generator_hash(sentences: int) -> str:
    """What tells this corpus from one of another length or by another version of the generator."""
    _check(sentences)
    text = "\n".join(itertools.islice(tell(sentences), HASHED))
    return hashlib.sha256(f"{sentences}\n{text}".encode()).hexdigest()


def write_sample(folder: Path, sentences: int) -> Path:
    """Write the corpus into `folder` in LM1B's layout, unless it is there; returns `folder`.

    It appears in one step; the caller keeps other processes out. Raises UserError for fewer
    sentences than three splits need, and for more than a disk should take.
    """
    _check(sentences)
    if child(folder.parent, folder.name).exists():
        return folder
    part = child(folder.parent, f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    shards = [part / LAYOUT / name for name in (TRAIN_SHARD, TEST_SHARD)]
    for shard in shards:
        make_directory(shard.parent)
    with shards[0].open("w", encoding="utf-8") as train, shards[1].open("w") as test:
        for number, sentence in enumerate(tell(sentences), start=1):
            (train if number % TEST_EVERY else test).write(f"{sentence}\n")
    part.replace(folder)
    return folder


def _check(sentences: int) -> None:
    if not FEWEST <= sentences <= MOST:
        raise wrong(
            "data.sentences",
            sentences,
            f"a whole number from {FEWEST} to {MOST}",
            "give it as data.sentences=40000",
        )
