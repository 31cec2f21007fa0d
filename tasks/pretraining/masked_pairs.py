"""The rows of pre-training: pairs of texts with pieces hidden, epoch after epoch.

Pieces are hidden for a model to restore as BERT does it: 15 %, of these 80/10/10.

Shapes: B rows, T positions, M predictions of a row.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.pretraining.counter_rng import CounterRng
from tasks.pretraining.encoded import EncodedDocuments
from tasks.pretraining.pairs import PairSource, rows_of
from tasks.seeds import Shuffled, derive
from tasks.text.tokenizer import BERT_MARKS

CLS, SEP, MASK = (BERT_MARKS.index(mark) for mark in ("[CLS]", "[SEP]", "[MASK]"))

FRACTION = 0.15  # of a row's real positions
MASKED, KEPT = 0.8, 0.1  # of these; the rest become a random piece

Arrays = dict[str, NDArray[Any]]


class MaskedPairs:
    """Rows of T positions of one split; a row is a function of (seed, purpose, epoch, number).

    An epoch runs through all numbers; its pairs and what is hidden in them are its own.
    """

    def __init__(
        self, documents: EncodedDocuments, sequence_length: int, seed: int, purpose: str
    ) -> None:
        self._pieces = documents.pieces_N
        self._vocabulary = range(len(BERT_MARKS), documents.about["vocabulary_size"])
        self._sequence_length = sequence_length
        self._pairs = PairSource(documents, sequence_length, derive(seed, purpose, "rows"))
        self._order = Shuffled(len(self._pairs), derive(seed, purpose, "order"))

    def __len__(self) -> int:
        """How many rows an epoch has."""
        return len(self._pairs)

    def shuffled(self, start: int, count: int) -> Arrays:
        """Return `count` rows from `start` on in the stream of shuffled epochs.

        tokens, token_type_ids and attention_mask: (count, T); places, targets and hidden:
        (count, M); next: (count,).
        """
        epochs = np.arange(start, start + count) // len(self)
        return self._rows(epochs, self._order.stretch(start, count))

    def ordered(self, start: int, count: int) -> Arrays:
        """Return rows of the first epoch in the order of their numbers."""
        numbers = np.arange(start, start + count)
        return self._rows(np.zeros_like(numbers), numbers)

    def _rows(self, epochs: NDArray[np.int64], numbers: NDArray[np.int64]) -> Arrays:
        pairs, rng = self._pairs.draw(epochs, numbers)
        rows = rows_of(pairs, self._pieces, self._sequence_length, (CLS, SEP))
        candidates = rows["attention_mask"] & (rows["tokens"] != CLS) & (rows["tokens"] != SEP)
        lengths = rows["attention_mask"].sum(axis=1)
        hidden = mask(rows["tokens"], candidates, lengths, rng, self._vocabulary, MASK)
        return {**rows, **hidden, "next": pairs.random_next}


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
) -> Arrays:
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
