"""Prepared data on disk, and the division of a text into splits.

A folder of prepared data contains arrays, and a JSON file with facts about them, which is written
last. An array is a file `<name>.<dtype>` of raw numbers, without a header. Rows of different
lengths are stored in two arrays. The first has all rows one after the other. The second has the
position at which each row begins, and at the end the total length.
"""

import itertools
import json
import math
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sweeper.store.errors import UserError
from sweeper.store.files import make_directory, new_file, write_all
from tasks.synthetic import samples
from tasks.text.source import SPLITS, Counts, Line, Source, Texts, batches, read_line

PIECES = np.dtype("<u2")  # the type of token ids
STARTS = np.dtype("<i8")  # the type of the positions at which rows begin

CHUNK = 2_000  # read and encode this many lines at a time

Add = Callable[[str, ArrayLike], None]
Chunk = tuple[bool, list[bytes | None]]
"""A pair: whether the lines belong to the source's own test split, and the raw lines."""


@contextmanager
def new_arrays(folder: Path, dtypes: Mapping[str, DTypeLike]) -> Iterator[Add]:
    """Yield a function `add(name, values)` that appends values to a new array of `folder`.

    The files are visible under their names only after the block has ended without an error.
    """
    make_directory(folder)
    with ExitStack() as stack:
        paths = {name: _path(folder, name, dtype) for name, dtype in dtypes.items()}
        files = {
            name: stack.enter_context(new_file(path)) for name, path in paths.items()
        }

        def add(name: str, values: ArrayLike) -> None:
            write_all(files[name], np.asarray(values, dtypes[name]).tobytes())

        yield add


class Arrays:
    """The arrays in a folder of prepared data, and the JSON file that describes them.

    `PreparedData.setup` has checked all files before they are opened.

    Args:
        about: the name of the JSON file.
    """

    def __init__(self, folder: Path, about: str) -> None:
        self._folder = folder
        self.about: Mapping[str, Any] = json.loads((folder / about).read_bytes())

    def mapped(self, name: str, dtype: np.dtype, *shape: int) -> NDArray[Any]:
        """Map an array into memory and return it with this shape."""
        if not math.prod(shape):  # an empty file cannot be mapped
            return np.empty(shape, dtype)
        path = _path(self._folder, name, dtype)
        return np.asarray(np.memmap(path, dtype, "r", shape=shape))


def _path(folder: Path, name: str, dtype: DTypeLike) -> Path:
    return folder / f"{name}.{np.dtype(dtype).name}"


@dataclass(frozen=True)
class Corpus:
    """A text whose lines are divided into three splits.

    The checksum of a line decides its split, so equal lines are in the same split. 1 % of the lines
    form the validation split. Another 2 % form the test split, unless the source has a test split
    of its own. Skipped lines count as training lines.

    Attributes:
        name: the name of the text in messages.
        train: the texts from which the splits are made.
        test: the texts of the source's own test split, or None.
        together: the number of consecutive lines in a block. The first kept line of a block decides
            the split of the whole block. With blocks of several lines, equal lines may be in
            different splits.
    """

    name: str
    train: Texts
    test: Texts | None
    together: int = 1

    def chunks(self, splits: Collection[str]) -> Iterator[Chunk]:
        """Yield chunks of raw lines, in order, from all texts that have lines of these splits."""
        size = CHUNK - CHUNK % self.together
        of_train = SPLITS[:2] if self.test else SPLITS
        sources = ((self.train, False, of_train), (self.test, True, SPLITS[2:]))
        for texts, own, available in sources:
            if texts and {*available} & {*splits}:
                lines = itertools.chain.from_iterable(texts())
                yield from ((own, raw) for raw in batches(lines, size))

    def placed(self, chunk: Chunk) -> Iterator[tuple[str, Line]]:
        """Yield pairs (split, line) for all lines of a chunk."""
        own, raw = chunk
        split, decided = "test", own
        for number, line in enumerate(map(read_line, raw)):
            if not own and number % self.together == 0:
                split, decided = "train", False
            if not decided and not line.skip:
                percent, decided = zlib.crc32(line.text.encode()) % 100, True
                split = "validation" if percent == 0 else "train"
                if self.test is None and 1 <= percent <= 2:
                    split = "test"
            yield split, line

    def lines(self, split: str, counts: Counts | None = None) -> Iterator[str]:
        """Yield the kept lines of a split, in order. Add kept and skipped lines to `counts`.

        Raises:
            UserError: all lines of the split were skipped, or it has none.
        """
        counts = Counts() if counts is None else counts
        for chunk in self.chunks([split]):
            for found, line in self.placed(chunk):
                if found == split and counts.add(line):
                    yield line.text
        self.check(split, counts)

    def check(self, split: str, counts: Counts) -> None:
        """Raise UserError if all lines of a split were skipped, or if it has none."""
        if not counts.kept:
            skipped = f" (skipped lines: {counts.total})" if counts.total else ""
            has_long = counts.skipped["too_long"]
            remedy = (
                "break long lines"
                if has_long
                else "add more text, or raise data.sentences"
            )
            raise UserError(
                f"{self.name} has no text in the split {split}{skipped}; {remedy}."
            )


class Corpora(Source):
    """The reader of the texts on which language models are trained."""

    sample = samples.LM1B

    def open(self, data: Mapping[str, Any], folder: Path) -> Corpus:
        """Return the corpus that the config's section `data` names.

        Generated text is first written to `folder`.
        """
        return Corpus(*self.texts(data, folder))
