"""Arrays of prepared data on disk, and the division of a text into splits.

A folder of prepared data contains arrays, and a JSON file that describes them and is written last.
An array is a file of raw numbers without a header, such as `rows.uint16`. Rows of different lengths
are stored in two arrays. The first has the elements of all rows, one row after the other. The
second has the index at which each row begins, and at the end the total length.
"""

import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from sweeper.store.files import make_directory, new_file, write_all
from tasks.synthetic import samples
from tasks.text.source import Line, Source, Texts, read_line

PIECES = np.dtype("<u2")  # the type of token ids
STARTS = np.dtype("<i8")  # the type of the indices at which rows begin

Add = Callable[[str, ArrayLike], None]


@contextmanager
def new_arrays(folder: Path, dtypes: Mapping[str, DTypeLike]) -> Iterator[Add]:
    """Create arrays in `folder`. Yield a function `add(name, values)` that appends to one of them.

    The files get their final names only when the `with` block ends without an error.

    Args:
        dtypes: the name and the dtype of each array.
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


def mapped(folder: Path, name: str, dtype: np.dtype, *shape: int) -> np.ndarray:
    """Map an array of `folder` into memory and return it with this shape.

    The file must be unchanged since it was written. `PreparedData.setup` checks this before.
    """
    if 0 in shape:  # an empty file cannot be mapped
        return np.empty(shape, dtype)
    path = _path(folder, name, dtype)
    return np.asarray(np.memmap(path, dtype, "r", shape=shape))


def _path(folder: Path, name: str, dtype: DTypeLike) -> Path:
    return folder / f"{name}.{np.dtype(dtype).name}"


@dataclass(frozen=True)
class Corpus:
    """A text whose lines are divided into training, validation and test splits.

    The checksum of a line decides its split, so equal lines are in the same split. About 1 % of the
    lines form the validation split. If the source has no test split, another 2 % form the test
    split.

    Attributes:
        name: the name of the text in messages.
        train: the function that yields the texts to divide into splits.
        test: the function that yields the texts of the source's test split, or None if the source
            has no test split.
        together: the number of consecutive lines in a block. The first kept line of a block decides
            the split of the whole block. With blocks of several lines, equal lines may be in
            different splits.
    """

    name: str
    train: Texts
    test: Texts | None
    together: int = 1

    def lines(self) -> Iterator[tuple[str, Line]]:
        """Yield pairs (split, line) for all lines in order, including the skipped ones.

        Skipped lines before the first kept line of a block (see `together`) have the split "train".
        """
        split, decided = "train", False
        for number, raw in enumerate(itertools.chain.from_iterable(self.train())):
            line = read_line(raw)
            if number % self.together == 0:
                split, decided = "train", False
            if not decided and not line.skip:
                split, decided = self._split_of(line.text), True
            yield split, line

        if self.test is not None:
            for raw in itertools.chain.from_iterable(self.test()):
                yield "test", read_line(raw)

    def training_lines(self) -> Iterator[str]:
        """Yield the kept lines of the training split, in order."""
        for split, line in self.lines():
            if split == "train" and not line.skip:
                yield line.text

    def _split_of(self, text: str) -> str:
        percent = zlib.crc32(text.encode()) % 100
        if percent == 0:
            return "validation"
        return "test" if percent <= 2 and self.test is None else "train"


class Corpora(Source):
    """The source of the texts on which language models are trained."""

    sample = samples.LM1B
