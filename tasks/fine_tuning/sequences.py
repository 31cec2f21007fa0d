"""Rows of two texts as an encoder reads them: [CLS] first [SEP] second [SEP], of any length.

On disk a split is `pieces.npy`, all rows one after the other; `rows.npy`, where each begins, with
the total at the end; one array for each further column of whole numbers; and `about.json`, which
appears last.

Shapes: N pieces, R rows of a split, B rows of a batch, T positions of its longest row.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweeper.store.errors import UserError
from sweeper.store.files import make_directory, publish, publish_json, read_object

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMAT = 1
ABOUT = "about.json"
STORED = np.dtype("<u2")
ROUND = 32  # a batch is padded to a multiple of this, so that few shapes occur


class Marks(NamedTuple):
    """The pieces that frame the two texts of a row."""

    first: int
    between: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Marks:
        """Return [CLS] and [SEP] of a tokenizer; UserError if it has none."""
        first, between = (tokenizer.token_to_id(mark) for mark in ("[CLS]", "[SEP]"))
        if first is None or between is None:
            raise UserError("the tokenizer has no [CLS] or [SEP]; name a pre-training as parent.")
        return cls(first, between)

    def row(self, first: Sequence[int], second: Sequence[int]) -> list[int]:
        """Return the pieces of a row; it has len(SPECIAL_TOKENS) more than its texts."""
        return [self.first, *first, self.between, *second, self.between]


SPECIAL_TOKENS = 3  # marks in a row


def write(
    folder: Path,
    rows: Sequence[Sequence[int]],
    columns: Mapping[str, Sequence[int]],
    about: Mapping[str, Any],
) -> None:
    """Write a split; each column has a number for each row, and `seconds` must be one of them."""
    make_directory(folder)
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    pieces = np.fromiter(itertools.chain.from_iterable(rows), STORED, int(starts[-1]))
    write_array(folder, "pieces", pieces)
    write_array(folder, "rows", starts)
    for name, values in columns.items():
        write_array(folder, name, np.asarray(values, np.int64))
    facts = {"rows": len(rows), "pieces": len(pieces), "columns": sorted(columns)}
    largest = int(pieces.max(initial=0))
    publish_json(folder / ABOUT, {"format": FORMAT, **facts, "largest_piece": largest, **about})


def write_array(folder: Path, name: str, values: NDArray[Any]) -> None:
    """Write one array of a split, in one step."""
    content = io.BytesIO()
    np.save(content, values, allow_pickle=False)
    publish(folder / f"{name}.npy", content.getvalue())


def read_array(folder: Path, name: str) -> NDArray[Any]:
    """Map one array of a split into memory; UserError if it is not as it was written."""
    try:
        return np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _changed(folder) from error


class Sequences:
    """The rows of a split. Raises UserError where they are absent, incomplete or changed.

    `columns` are the arrays (R,) that were written beside the rows; of these, `seconds` says at
    which position of a row its second text begins.
    """

    def __init__(self, folder: Path) -> None:
        about = read_object(folder / ABOUT, keys=("format", "rows", "pieces", "columns"))
        if about is None:
            raise UserError(f"{folder} holds no examples; prepare the data.")
        self.about: Mapping[str, Any] = about
        if about["format"] != FORMAT:
            raise _changed(folder)
        self._pieces_N = read_array(folder, "pieces")
        self._starts = read_array(folder, "rows")
        self.columns = {name: read_array(folder, name) for name in about["columns"]}
        lengths = [len(self._starts) - 1, *map(len, self.columns.values())]
        if set(lengths) != {about["rows"]} or len(self._pieces_N) != about["pieces"]:
            raise _changed(folder)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def rows(self, numbers: NDArray[np.integer[Any]], longest: int) -> dict[str, NDArray[Any]]:
        """Return tokens, token_type_ids and attention_mask of these rows, (B, T) each.

        T is the length of the longest of them rounded up, and at most `longest`: positions that
        would be padding in every row are left out, which changes no result. Padding is piece 0.
        """
        starts_B = self._starts[numbers]
        lengths_B = self._starts[numbers + 1] - starts_B
        positions_T = np.arange(min(_rounded_up(int(lengths_B.max())), longest))
        attention_mask_BT = positions_T < lengths_B[:, None]
        places_BT = np.minimum(starts_B[:, None] + positions_T, len(self._pieces_N) - 1)
        tokens_BT = self._pieces_N[places_BT].astype(np.int64) * attention_mask_BT
        token_type_ids_BT = (
            positions_T >= self.columns["seconds"][numbers][:, None]
        ) & attention_mask_BT
        return {
            "tokens": tokens_BT,
            "token_type_ids": token_type_ids_BT.astype(np.int64),
            "attention_mask": attention_mask_BT,
        }


def _rounded_up(length: int) -> int:
    return -(-length // ROUND) * ROUND


def _changed(folder: Path) -> UserError:
    return UserError(f"{folder} is not as it was written; delete it and prepare the data.")
