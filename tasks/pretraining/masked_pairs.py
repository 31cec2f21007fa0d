"""The rows of pre-training: pairs of texts with pieces hidden, epoch after epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.pretraining.encoded import EncodedDocuments
from tasks.pretraining.masking import mask
from tasks.pretraining.pairs import PairSource, rows_of
from tasks.seeds import Shuffled, derive
from tasks.text.tokenizer import BERT_MARKS

CLS, SEP, MASK = (BERT_MARKS.index(mark) for mark in ("[CLS]", "[SEP]", "[MASK]"))

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
