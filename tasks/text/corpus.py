"""Prepared data on disk: a folder of arrays, and a JSON file that appears last and says what it is.

An array is a file `<name>.<dtype>` of its numbers alone. Rows of different lengths are two arrays:
all rows one after the other, and where each begins among them, with the total at the end.
"""

import itertools
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
from sweeper.store.files import make_directory, new_file, read_object, write_all
from tasks.synthetic import samples
from tasks.text.source import SPLITS, Counts, Line, Source, Texts, batches, read_line

PIECES = np.dtype("<u2")  # ids of pieces of text
STARTS = np.dtype("<i8")

CHUNK = 2_000  # lines that are read and encoded at a time

Add = Callable[[str, ArrayLike], None]
Chunk = tuple[bool, list[bytes | None]]
"""Raw lines, and whether they are of the source's own test split."""


@contextmanager
def new_arrays(folder: Path, dtypes: Mapping[str, DTypeLike]) -> Iterator[Add]:
    """Yield `add(name, values)`, which appends; the files appear if the block ends well."""
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
    """The arrays of a folder. Raises UserError where they are absent, incomplete or changed."""

    def __init__(
        self, folder: Path, about: str, form: int, keys: Collection[str]
    ) -> None:
        self._folder = folder
        try:
            found = read_object(folder / about, keys=("format", *keys))
        except UserError as error:
            raise self._changed() from error
        if found is None:
            raise UserError(f"{folder} holds no prepared data; prepare the data.")
        self.about: Mapping[str, Any] = found
        if found["format"] != form:
            raise self._changed()

    def mapped(self, name: str, dtype: np.dtype, *shape: int) -> NDArray[Any]:
        """Map one into memory."""
        path = _path(self._folder, name, dtype)
        if (
            not path.is_file()
            or path.stat().st_size != math.prod(shape) * dtype.itemsize
        ):
            raise self._changed()
        if not math.prod(shape):
            return np.empty(shape, dtype)
        return np.asarray(np.memmap(path, dtype, "r", shape=shape))

    def _changed(self) -> UserError:
        said = (
            f"{self._folder} is not as it was written; delete it and prepare the data."
        )
        return UserError(said)


def _path(folder: Path, name: str, dtype: DTypeLike) -> Path:
    return folder / f"{name}.{np.dtype(dtype).name}"


@dataclass(frozen=True)
class Corpus:
    """Text in three splits, by a checksum of each line: equal lines are always in one split.

    1 % are validation, and 2 % are test where the source has no test split of its own; lines that
    are skipped count as train's. Of every `together` lines the first that is kept decides for those
    after it: a line that comes twice may then be in two splits.
    """

    name: str
    train: Texts
    test: Texts | None
    together: int = 1

    def chunks(self, splits: Collection[str]) -> Iterator[Chunk]:
        """Yield the raw lines of the texts that hold these splits, in order."""
        size = CHUNK - CHUNK % self.together
        for texts, own in ((self.train, False), (self.test, True)):
            held = {"test"} if own else {*SPLITS[:2], *(() if self.test else ("test",))}
            if texts and held & {*splits}:
                lines = itertools.chain.from_iterable(texts())
                yield from ((own, raw) for raw in batches(lines, size))

    def placed(self, chunk: Chunk) -> Iterator[tuple[str, Line]]:
        """Yield each line of a chunk with its split."""
        own, raw = chunk
        found, decided = "test", own
        for number, line in enumerate(map(read_line, raw)):
            if not own and number % self.together == 0:
                found, decided = "train", False
            if not decided and not line.skip:
                place, decided = zlib.crc32(line.text.encode()) % 100, True
                found = "validation" if place == 0 else "train"
                if self.test is None and 1 <= place <= 2:
                    found = "test"
            yield found, line

    def lines(self, split: str, counts: Counts | None = None) -> Iterator[str]:
        """Yield the kept lines of a split in order and count them; UserError if it is empty."""
        counts = Counts() if counts is None else counts
        for chunk in self.chunks([split]):
            for found, line in self.placed(chunk):
                if found == split and counts.add(line):
                    yield line.text
        self.check(split, counts)

    def check(self, split: str, counts: Counts) -> None:
        """Raise UserError for a split that keeps no line."""
        if not counts.kept:
            skipped = f", {counts.total} lines were skipped" if counts.total else ""
            remedy = (
                "break its long lines"
                if counts.skipped["too_long"]
                else "give it more text"
            )
            raise UserError(
                f"{self.name} has no text in the split {split}{skipped}; {remedy}."
            )


class Corpora(Source):
    """The corpora that language models learn from."""

    sample = samples.LM1B

    def open(self, data: Mapping[str, Any], folder: Path) -> Corpus:
        """Return the corpus that `data` of a config names; a sample is kept in `folder`."""
        return Corpus(*self.texts(data, folder))
