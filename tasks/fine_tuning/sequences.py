"""Rows of two texts as an encoder reads them: [CLS] first [SEP] second [SEP], of any length.

On disk a split is the arrays `pieces`, all rows one after the other, `rows`, where each begins, one
for each further column of whole numbers, and `about.json`.

Shapes: N pieces, R rows of a split, B rows of a batch, T positions of its longest row.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweeper.store.errors import UserError
from sweeper.store.files import publish_json
from tasks.text.arrays import PIECES, STARTS, Arrays, new_arrays

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMAT = 2
ABOUT = "about.json"
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
    starts = np.cumsum([0, *map(len, rows)], dtype=STARTS)
    pieces = np.fromiter(itertools.chain.from_iterable(rows), PIECES, int(starts[-1]))
    with new_arrays(folder, {"pieces": PIECES, **dict.fromkeys(("rows", *columns), STARTS)}) as add:
        add("pieces", pieces)
        add("rows", starts)
        for name, values in columns.items():
            add(name, values)
    facts = {"rows": len(rows), "pieces": len(pieces), "columns": sorted(columns)}
    largest = int(pieces.max(initial=0))
    publish_json(folder / ABOUT, {"format": FORMAT, **facts, "largest_piece": largest, **about})


class Sequences:
    """The rows of a split; UserError as for `Arrays`.

    `columns` are the arrays (R,) that were written beside the rows; of these, `seconds` says at
    which position of a row its second text begins.
    """

    def __init__(self, folder: Path) -> None:
        self.arrays = Arrays(folder, ABOUT, FORMAT, ("rows", "pieces", "columns"))
        self.about = about = self.arrays.about
        self._pieces_N = self.arrays.mapped("pieces", PIECES, about["pieces"])
        self._starts = self.arrays.mapped("rows", STARTS, about["rows"] + 1)
        self.columns = {
            name: self.arrays.mapped(name, STARTS, about["rows"]) for name in about["columns"]
        }

    def __len__(self) -> int:
        return len(self._starts) - 1

    def rows(self, numbers: NDArray[np.integer[Any]], longest: int) -> dict[str, NDArray[Any]]:
        """Return tokens, token_type_ids and attention_mask of these rows, (B, T) each.

        T is the length of the longest of them rounded up, and at most `longest`: positions that
        would be padding in every row are left out, which changes no result. Padding is piece 0.
        """
        starts_B = self._starts[numbers]
        lengths_B = self._starts[numbers + 1] - starts_B
        padded = -(-int(lengths_B.max()) // ROUND) * ROUND
        positions_T = np.arange(min(padded, longest))
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
