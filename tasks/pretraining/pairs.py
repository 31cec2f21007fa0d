"""Pairs of texts from encoded documents, drawn anew in every epoch: BERT's next-sentence examples.

As create_pretraining_data.py draws them: a stretch of sentences that fills a row is cut in two at a
random sentence, and for half of the pairs the second text is replaced by one from another document;
one stretch in ten is aimed at a random shorter length; what is too long is cut at both ends. There,
pairs are written to disk once. Here, a pair is a function of (seed, epoch, number).

Shapes: B rows, T positions of a row; starts and lengths count pieces.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.pretraining.counter_rng import CounterRng
from tasks.pretraining.encoded import EncodedDocuments

MARKS = 3  # positions of a row that [CLS] and two [SEP] take
SHORTEST = 2  # pieces that a shorter stretch is aimed at, at least
SHORT = 0.1  # of the stretches
RANDOM_NEXT = 0.5  # of the pairs, and all those whose stretch is a single sentence

Whole = NDArray[np.int64]


class Purpose(IntEnum):
    """What a number is drawn for."""

    SHIFT = auto()
    IS_SHORT = auto()
    SHORT_LENGTH = auto()
    SPLIT = auto()
    RANDOM_NEXT = auto()
    OTHER_PLACE = auto()
    CUT_FIRST = auto()
    CUT_SECOND = auto()


class Pairs(NamedTuple):
    """Where the two texts of each row are among the pieces, (B,) each."""

    first_start: Whole
    first_length: Whole
    second_start: Whole
    second_length: Whole
    random_next: Whole
    """1 where the second text comes from another document, 0 where it follows the first."""


class PairSource:
    """The pairs of one split for rows of T positions.

    An epoch has as many pairs as rows full of text fit into the split: its pieces are marked off
    at that distance, from a random place on, and the sentence at each mark begins a stretch. A
    stretch stays inside its document: near the end of one it begins earlier. So the mean length of
    rows does not suffer from short ends, and a document takes part in proportion to its length.
    """

    def __init__(self, documents: EncodedDocuments, sequence_length: int, seed: int) -> None:
        self._sentences = documents.sentences_S
        self._documents = documents.documents_C
        self._pieces = int(documents.about["pieces"])
        self._room = sequence_length - MARKS
        self._seed = seed

    def __len__(self) -> int:
        """How many pairs an epoch has."""
        return max(self._pieces // self._room, 1)

    def draw(self, epochs_B: Whole, numbers_B: Whole) -> tuple[Pairs, CounterRng]:
        """Return these pairs of these epochs, and the draws of their rows for what comes next."""
        rng = CounterRng(self._seed, (epochs_B, numbers_B))
        short_B = rng.uniform(Purpose.IS_SHORT) < SHORT
        choices_B = np.full(len(numbers_B), self._room - SHORTEST + 1)
        shorter_B = SHORTEST + rng.whole(Purpose.SHORT_LENGTH, choices_B)
        wanted_B = np.where(short_B, shorter_B, self._room)
        shift_B = CounterRng(self._seed, (epochs_B,)).uniform(Purpose.SHIFT) * self._room
        place_B = np.minimum(numbers_B * self._room + shift_B.astype(np.int64), self._pieces - 1)
        return self._truncated(self._pair(place_B, wanted_B, rng), rng), rng

    def _pair(self, place_B: Whole, wanted_B: Whole, rng: CounterRng) -> Pairs:
        first_B, end_B, document_B = self._stretch(place_B, wanted_B)
        sentences_B = end_B - first_B
        middle_B = first_B + 1 + rng.whole(Purpose.SPLIT, sentences_B - 1)
        start_B, length_B = self._span(first_B, middle_B)
        random_B = (sentences_B == 1) | (rng.uniform(Purpose.RANDOM_NEXT) < RANDOM_NEXT)

        own_B, after_B = self._span(*self._of_document(document_B))
        other_B = rng.whole(Purpose.OTHER_PLACE, self._pieces - after_B)
        other_B += np.where(other_B >= own_B, after_B, 0)  # the pieces of all other documents
        rest_B = np.maximum(wanted_B - length_B, 1)
        other_first_B, other_end_B, _ = self._stretch(other_B, rest_B)

        second_B = self._span(
            np.where(random_B, other_first_B, middle_B), np.where(random_B, other_end_B, end_B)
        )
        return Pairs(start_B, length_B, *second_B, random_B.astype(np.int64))

    def _stretch(self, place_B: Whole, wanted_B: Whole) -> tuple[Whole, Whole, Whole]:
        """Return the first sentence, the one after the last, and the document of a stretch.

        It holds the wanted number of pieces, or the whole document. From a place too near the end
        of a document it begins earlier and runs to that end.
        """
        sentence_B = np.searchsorted(self._sentences, place_B, "right") - 1
        document_B = np.searchsorted(self._documents, sentence_B, "right") - 1
        begin_B, end_B = self._of_document(document_B)
        latest_B = np.maximum(self._sentences[end_B] - wanted_B, self._sentences[begin_B])
        first_B = np.searchsorted(self._sentences, np.minimum(place_B, latest_B), "right") - 1
        last_B = np.searchsorted(self._sentences, self._sentences[first_B] + wanted_B)
        last_B = np.where(place_B > latest_B, end_B, np.minimum(last_B, end_B))
        return first_B, last_B, document_B

    def _of_document(self, document_B: Whole) -> tuple[Whole, Whole]:
        """Return the first sentence of a document and the one after its last."""
        return self._documents[document_B], self._documents[document_B + 1]

    def _span(self, first_B: Whole, end_B: Whole) -> tuple[Whole, Whole]:
        """Return the first piece of a stretch of sentences and how many there are."""
        start_B = self._sentences[first_B]
        return start_B, self._sentences[end_B] - start_B

    def _truncated(self, pairs: Pairs, rng: CounterRng) -> Pairs:
        """Shorten the longer text, then both alike, until the pair fits; cut at both ends."""
        half = (self._room + 1) // 2
        limit_B = np.maximum(half, self._room - pairs.second_length)
        first_B = np.minimum(pairs.first_length, limit_B)
        second_B = np.minimum(pairs.second_length, self._room - first_B)
        lost_first_B, lost_second_B = pairs.first_length - first_B, pairs.second_length - second_B
        return Pairs(
            pairs.first_start + rng.whole(Purpose.CUT_FIRST, lost_first_B + 1),
            first_B,
            pairs.second_start + rng.whole(Purpose.CUT_SECOND, lost_second_B + 1),
            second_B,
            pairs.random_next,
        )


def rows_of(
    pairs: Pairs, pieces: NDArray[Any], sequence_length: int, marks: tuple[int, int]
) -> dict[str, NDArray[Any]]:
    """Return tokens, token_type_ids and attention_mask, (B, T) each.

    A row is [CLS] first [SEP] second [SEP] and padding of 0.

    marks: the ids of [CLS] and [SEP]. `types` is 1 on the second text and its [SEP].
    """
    first_B1, second_B1 = pairs.first_length[:, None], pairs.second_length[:, None]
    places_T = np.arange(sequence_length)
    middle_B1, end_B1 = first_B1 + 1, first_B1 + second_B1 + 2  # of the two [SEP]
    token_type_ids_BT = (places_T > middle_B1) & (places_T <= end_B1)
    offset_B1 = pairs.first_start[:, None] - 1
    jump_B1 = pairs.second_start[:, None] - 2 - first_B1 - offset_B1
    index_BT = places_T + offset_B1 + token_type_ids_BT * jump_B1
    attention_mask_BT = places_T <= end_B1
    tokens_BT = np.take(pieces, index_BT, mode="clip").astype(np.int64)
    tokens_BT[:, 0] = marks[0]
    tokens_BT[(places_T == middle_B1) | (places_T == end_B1)] = marks[1]
    tokens_BT *= attention_mask_BT
    return {
        "tokens": tokens_BT,
        "token_type_ids": token_type_ids_BT.astype(np.int64),
        "attention_mask": attention_mask_BT,
    }
