"""Packs the sentences of a split into rows and writes them; `tasks.lm1b.rows` reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweeper.store.errors import UserError
from sweeper.store.files import publish_json
from tasks.lm1b.rows import ABOUT, FORMAT
from tasks.text.arrays import PIECES, Add, new_arrays
from tasks.text.corpus import Corpus
from tasks.text.lines import Counts, batches
from tasks.text.tokenizer import LARGEST_VOCABULARY, PAD, encode_sentences

if TYPE_CHECKING:
    from tokenizers import Tokenizer

OPEN_ROWS = 10  # as tensor2tensor's pack_examples
CHUNK = 2_000  # sentences encoded at a time


@dataclass
class RowCounts:
    """What a split's rows hold; `tokens` counts every target, END included."""

    rows: int = 0
    tokens: int = 0
    words: int = 0
    sentences: int = 0
    segments: int = 0


class FirstFit:
    """Puts each segment into the first of at most OPEN_ROWS open rows that has room for it."""

    def __init__(self, sequence_length: int) -> None:
        self.sequence_length = sequence_length
        self._open: list[tuple[int, list[int]]] = []  # room left, pieces

    def add(self, segment: list[int]) -> list[int] | None:
        """Place a segment of 1 to sequence_length pieces; returns the row that had to be closed."""
        size = len(segment)
        for place, (room, row) in enumerate(self._open):
            if size <= room:
                row.extend(segment)
                if size == room:
                    del self._open[place]
                    return row
                self._open[place] = (room - size, row)
                return None
        if size == self.sequence_length:
            return segment
        self._open.append((self.sequence_length - size, list(segment)))
        return self._open.pop(0)[1] if len(self._open) > OPEN_ROWS else None

    def rest(self) -> Iterator[list[int]]:
        """The rows still open, oldest first."""
        while self._open:
            yield self._open.pop(0)[1]


class Joined:
    """Puts sentences one after the other, cut wherever a row is full; interface as of FirstFit."""

    def __init__(self, sequence_length: int) -> None:
        self.sequence_length = sequence_length
        self._row: list[int] = []

    def add(self, segment: list[int]) -> list[int] | None:
        self._row.extend(segment)
        if len(self._row) < self.sequence_length:
            return None
        row = self._row[: self.sequence_length]
        del self._row[: self.sequence_length]
        return row

    def rest(self) -> Iterator[list[int]]:
        if self._row:
            yield self._row


def pack_split(
    folder: Path, corpus: Corpus, split: str, tokenizer: Tokenizer, packer: FirstFit | Joined
) -> dict[str, Any]:
    """Encode and pack a split into `folder`; returns what rows.json holds.

    Streams: memory does not grow with the corpus. The caller keeps other processes out of `folder`.
    """
    if tokenizer.get_vocab_size() > LARGEST_VOCABULARY:
        raise UserError(
            f"a tokenizer of {tokenizer.get_vocab_size()} pieces: expected at most "
            f"{LARGEST_VOCABULARY}, two bytes each; choose a smaller task.vocabulary_size."
        )
    lines, rows, sequence_length = Counts(), RowCounts(), packer.sequence_length
    with new_arrays(folder, {"rows": PIECES}) as add:
        _write_rows(add, corpus.lines(split, lines), tokenizer, packer, rows)
    about = {
        "format": FORMAT,
        "split": split,
        "sequence_length": sequence_length,
        "vocabulary_size": tokenizer.get_vocab_size(),
        **asdict(rows),
        "fill": rows.tokens / (rows.rows * sequence_length),
        "lines": lines.total,
        "skipped": lines.skipped,
        "repaired": lines.repaired,
    }
    if isinstance(packer, Joined):
        about |= {"joined": True, "segments": rows.rows}
    publish_json(folder / ABOUT, about)
    return about


def _write_rows(
    add: Add,
    lines: Iterator[str],
    tokenizer: Tokenizer,
    packer: FirstFit | Joined,
    counts: RowCounts,
) -> None:
    sequence_length = packer.sequence_length
    for texts in batches(lines, CHUNK):
        closed = []
        for text, pieces in zip(texts, encode_sentences(tokenizer, texts), strict=True):
            counts.sentences += 1
            counts.words += len(text.split())
            counts.tokens += len(pieces)
            for start in range(0, len(pieces), sequence_length):
                counts.segments += 1
                row = packer.add(pieces[start : start + sequence_length])
                if row is not None:
                    closed.append(row)
        counts.rows += _append(add, closed, sequence_length)
    counts.rows += _append(add, list(packer.rest()), sequence_length)


def _append(add: Add, rows: list[list[int]], sequence_length: int) -> int:
    block = np.full((len(rows), sequence_length), PAD, PIECES)
    for target, row in zip(block, rows, strict=True):
        target[: len(row)] = row
    add("rows", block)
    return len(rows)
