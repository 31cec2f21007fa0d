"""A corpus: lines of text in the splits train, validation and test, from whichever source."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError
from tasks.synthetic import lm1b
from tasks.text.lines import Counts, Line, read_line
from tasks.text.source import Source, Texts


@dataclass(frozen=True)
class Corpus:
    """Text in three splits that share no line of `train`.

    Which split a line belongs to follows from its text alone (a checksum modulo 100), so equal
    lines are always in one split: 1 % are validation, and 2 % are test where the source has no test
    split of its own. Lines that are skipped count as train's.

    Of text that is to be read on from line to line the first of so many `together` decides for all;
    a line that is found twice may then be in two splits.
    """

    name: str
    train: Texts
    test: Texts | None
    together: int = 1

    def lines(self, split: str, counts: Counts | None = None) -> Iterator[str]:
        """The kept lines of a split in a fixed order; `counts` is filled while reading.

        Raises UserError where a file cannot be read or the split turns out empty.
        """
        counts = Counts() if counts is None else counts
        own = split == "test" and self.test is not None
        source = self.test if own and self.test is not None else self.train
        found = ""
        for number, line in enumerate(map(read_line, itertools.chain.from_iterable(source()))):
            if number % self.together == 0:
                found = self._split_of(line)
            if (own or found == split) and counts.add(line):
                yield line.text
        if not counts.kept:
            skipped = f", {counts.total} lines were skipped" if counts.total else ""
            raise UserError(
                f"{self.name} has no text in the split {split}{skipped}; give it more text."
            )

    def _split_of(self, line: Line) -> str:
        if line.skip:
            return "train"
        place = zlib.crc32(line.text.encode()) % 100
        if place == 0:
            return "validation"
        return "test" if self.test is None and place <= 2 else "train"


class Corpora(Source):
    """The corpora that language models learn from."""

    sample = lm1b.SAMPLE

    def open(self, data: Mapping[str, Any], folder: Path) -> Corpus:
        """The corpus that the `data` section of a config names; a sample is kept in `folder`."""
        return Corpus(*self.texts(data, folder))
