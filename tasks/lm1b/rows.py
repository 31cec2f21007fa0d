"""Packed rows of text: what a row means, and reading rows fast from an array on disk.

A row holds whole segments one after the other and PAD at its end. A segment is a sentence, END
being its last piece; a sentence longer than a row is cut into segments of a full row and a rest.
Only targets are stored; the rest follows from them. Within a segment of targets [t1 .. tn] the
inputs are [PAD, t1 .. tn-1], as in tensor2tensor: every piece, the first and END included, is
predicted exactly once, from its own segment only. Where sentences are joined a row is one segment.

Shapes: R rows of a split, B rows of a batch, T positions of a row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.text.arrays import PIECES, Arrays
from tasks.text.tokenizer import END, PAD

FORMAT = 1
ABOUT = "rows.json"


class PackedRows:
    """The rows of a split, read by row number; UserError as for `Arrays`."""

    def __init__(self, folder: Path) -> None:
        arrays = Arrays(folder, ABOUT, FORMAT, ("rows", "sequence_length"))
        self.about = arrays.about
        self.sequence_length: int = self.about["sequence_length"]
        self._joined = bool(self.about.get("joined"))
        self._targets_RT = arrays.mapped("rows", PIECES, self.about["rows"], self.sequence_length)

    def __len__(self) -> int:
        return len(self._targets_RT)

    def rows(self, numbers: NDArray[np.integer[Any]]) -> dict[str, NDArray[np.int64]]:
        """tokens, targets, segments and positions of these rows, each (B, T) int64.

        segments count from 1 in every row and are 0 on padding; positions count from 0 in every
        segment and are 0 on padding.
        """
        return expand(self._targets_RT[numbers], self._joined)


def expand(targets_BT: NDArray[np.uint16], joined: bool = False) -> dict[str, NDArray[np.int64]]:
    """Inputs, segments and positions of stored targets.

    END ends a segment and a segment without one fills its row, so both follow from the targets;
    rows of joined sentences are one segment each.
    """
    _, length = targets_BT.shape
    starts_BT = np.zeros(targets_BT.shape, bool)
    starts_BT[:, 0] = True
    if not joined:
        np.equal(targets_BT[:, :-1], END, out=starts_BT[:, 1:])
    attention_mask_BT = targets_BT != PAD
    tokens_BT = np.zeros(targets_BT.shape, np.int64)
    np.multiply(targets_BT[:, :-1], ~starts_BT[:, 1:], out=tokens_BT[:, 1:])
    tokens_BT *= attention_mask_BT
    segments_BT = np.cumsum(starts_BT, axis=1, dtype=np.int64)
    segments_BT *= attention_mask_BT
    places_T = np.arange(length)
    positions_BT = places_T - np.maximum.accumulate(starts_BT * places_T, axis=1)
    positions_BT *= attention_mask_BT
    return {
        "tokens": tokens_BT,
        "targets": targets_BT.astype(np.int64),
        "segments": segments_BT,
        "positions": positions_BT,
    }
