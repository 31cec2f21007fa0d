"""Hides pieces of a row for a model to restore, as BERT does: 15 %, of these 80/10/10.

Shapes: B rows, T positions, M predictions of a row.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.pretraining.counter_rng import CounterRng

FRACTION = 0.15  # of a row's real positions
MASKED, KEPT = 0.8, 0.1  # of these; the rest become a random piece


class Purpose(IntEnum):
    """What a number is drawn for; apart from what the row itself was drawn for."""

    ORDER = 101
    FATE = 102
    PIECE = 103


def predictions(sequence_length: int) -> int:
    """Return M, how many pieces of a row are restored at most: 20 of 128 positions, 77 of 512."""
    return math.ceil(sequence_length * FRACTION)


def mask(
    tokens_BT: NDArray[np.int64],
    candidates_BT: NDArray[np.bool_],
    lengths_B: NDArray[np.int64],
    rng: CounterRng,
    pieces: range,
    mask_id: int,
) -> dict[str, NDArray[Any]]:
    """Return tokens with some hidden, (B, T); places and targets of these, (B, M) each.

    candidates: what may be hidden. lengths: a row's real positions, whose share is hidden, one at
    least. pieces: the ids a random piece is drawn from. `hidden`, (B, M), is False where a row has
    fewer than M: there place and target mean nothing.
    """
    rows, length = tokens_BT.shape
    most = predictions(length)
    order_BT = np.where(candidates_BT, rng.uniforms(Purpose.ORDER, length), 2.0)
    places_BM = np.argpartition(order_BT, most - 1, axis=1)[:, :most]
    rank_BM = np.argsort(np.take_along_axis(order_BT, places_BM, 1), axis=1)
    places_BM = np.take_along_axis(places_BM, rank_BM, 1)  # in the order they are hidden
    counts_B = np.clip(np.rint(lengths_B * FRACTION), 1, most)
    hidden_BM = np.arange(most) < counts_B[:, None]
    targets_BM = np.take_along_axis(tokens_BT, places_BM, 1)

    fate_BM = rng.uniforms(Purpose.FATE, most)
    random_BM = rng.uniforms(Purpose.PIECE, most) * len(pieces)
    seen_BM = np.where(fate_BM < MASKED, mask_id, pieces.start + random_BM.astype(np.int64))
    kept_BM = ~hidden_BM | ((fate_BM >= MASKED) & (fate_BM < MASKED + KEPT))
    tokens_BT = tokens_BT.copy()
    tokens_BT[np.arange(rows)[:, None], places_BM] = np.where(kept_BM, targets_BM, seen_BM)
    return {"tokens": tokens_BT, "places": places_BM, "targets": targets_BM, "hidden": hidden_BM}
