"""Prepared data on disk: a folder of arrays, and a JSON file that appears last and says what it is.

An array is a file `<name>.<dtype>` of its numbers alone. Rows of different lengths are two arrays:
all rows one after the other, and where each begins among them, with the total at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sweeper.store.errors import UserError
from sweeper.store.files import make_directory, new_file, read_object, write_all

PIECES = np.dtype("<u2")  # ids of pieces of text
STARTS = np.dtype("<i8")

Add = Callable[[str, ArrayLike], None]


@contextmanager
def new_arrays(folder: Path, dtypes: Mapping[str, DTypeLike]) -> Iterator[Add]:
    """Yield `add(name, values)`, which appends; the files appear if the block ends well."""
    make_directory(folder)
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(new_file(_path(folder, name, dtype)))
            for name, dtype in dtypes.items()
        }
        yield lambda name, values: write_all(
            files[name], np.asarray(values, dtypes[name]).tobytes()
        )


class Arrays:
    """The arrays of a folder. Raises UserError where they are absent, incomplete or changed."""

    def __init__(self, folder: Path, about: str, form: int, keys: Collection[str]) -> None:
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
        if not path.is_file() or path.stat().st_size != math.prod(shape) * dtype.itemsize:
            raise self._changed()
        if not math.prod(shape):
            return np.empty(shape, dtype)
        return np.asarray(np.memmap(path, dtype, "r", shape=shape))

    def _changed(self) -> UserError:
        return UserError(
            f"{self._folder} is not as it was written; delete it and prepare the data."
        )


def _path(folder: Path, name: str, dtype: DTypeLike) -> Path:
    return folder / f"{name}.{np.dtype(dtype).name}"
