"""Rows of two texts with masked tokens. A row depends only on the seed, the epoch and its number.

Shapes: B rows of a batch, T positions of a row, M masked positions of a row.
"""

import math
from collections.abc import Sequence
from enum import IntEnum, auto
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.batch import Booleans, Floats, Integers
from tasks.pretraining.documents import EncodedDocuments
from tasks.seeds import Shuffled, derive
from tasks.text.tokenizer import BERT_MARKS

# SplitMix64 (Steele, Lea, Flood 2014): a counter grows by _STEP, and _MIX turns it into a hash.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))
_PLACES = 1 << 20  # a row has at most this many random numbers for each `Purpose`


class CounterRng:
    """A counter-based random generator for B rows.

    The random numbers of a row depend only on the seed and on the row's counters, such as its epoch
    and row number.
    """

    def __init__(self, seed: int, counters: Sequence[Integers]) -> None:
        """Derive one key per row from the seed and the row's counters.

        Args:
            seed: a number below 2^63.
            counters: arrays (B,) of whole numbers from 0, such as epochs and row numbers.
        """
        keys_B = np.full(len(counters[0]), seed, np.uint64)
        for counter_B in counters:
            keys_B = _mixed(
                keys_B + _STEP * (counter_B.astype(np.uint64) + np.uint64(1))
            )
        self._keys_B = keys_B

    def uniform(self, purpose: int) -> Floats:
        """Return uniform random numbers in [0, 1), of shape (B,), one for each row."""
        return self.uniforms(purpose, 1)[:, 0]

    def uniforms(self, purpose: int, count: int) -> Floats:
        """Return uniform random numbers in [0, 1), of shape (B, count), `count` for each row."""
        first = purpose * _PLACES + 1
        places = np.arange(first, first + count, dtype=np.uint64)
        bits = _mixed(self._keys_B[:, None] + _STEP * places)
        return np.ldexp((bits >> np.uint64(11)).astype(np.float64), -53)

    def whole(self, purpose: int, limits_B: Integers) -> Integers:
        """Return random whole numbers (B,). The number of row b is in [0, limits_B[b])."""
        return (self.uniform(purpose) * limits_B).astype(np.int64)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for shift, factor in _MIX:
        values = (values ^ (values >> np.uint64(shift))) * factor
    return values ^ (values >> np.uint64(31))


CLS, SEP, MASK = (BERT_MARKS.index(mark) for mark in ("[CLS]", "[SEP]", "[MASK]"))
MARKS = 3  # [CLS] and two [SEP] take this many positions of a row
SHORT = 0.1  # this share of the pairs has a random length, the others fill a row
SHORTEST = 2  # the smallest random length of a pair, in tokens
# In this share of the pairs, a random text replaces the second text. A pair with only one sentence
# always gets a random second text.
RANDOM_NEXT = 0.5


class Purpose(IntEnum):
    """The purpose of a random number. Numbers with different purposes are independent.

    Purposes below 100 are for choosing the texts of a row, and the others for masking its tokens.
    """

    SHIFT = auto()
    IS_SHORT = auto()
    SHORT_LENGTH = auto()
    SPLIT = auto()
    RANDOM_NEXT = auto()
    OTHER_PLACE = auto()
    CUT_FIRST = auto()
    CUT_SECOND = auto()
    ORDER = 101
    FATE = 102
    PIECE = 103


class Pairs(NamedTuple):
    """The two texts of each of B rows.

    Each field has the shape (B,). A start is an index into the token ids of the split, `pieces_N`.
    A length is a number of tokens.
    """

    first_start: Integers
    first_length: Integers
    second_start: Integers
    second_length: Integers
    random_next: Integers
    """1 if the second text comes from another document, 0 if it follows the first."""


class PairSource:
    """A generator of pairs of texts from one split, for rows of T positions.

    Each epoch divides the tokens of the split into intervals of the length of a row, with a random
    offset. Each interval gives one pair, so longer documents give more pairs. A pair consists of
    consecutive sentences of one document. They begin at the start of the interval and fill a row
    (see `_stretch`). The pair is split into two texts before a random sentence. In half of the
    pairs, a text from another document replaces the second text.
    """

    def __init__(
        self, documents: EncodedDocuments, sequence_length: int, seed: int
    ) -> None:
        self._sentences = documents.sentences_S
        self._documents = documents.documents_C
        self._pieces = int(documents.about["pieces"])
        self._room = sequence_length - MARKS
        self._seed = seed

    def __len__(self) -> int:
        """Return the number of pairs in an epoch."""
        return max(self._pieces // self._room, 1)

    def draw(self, epochs_B: Integers, numbers_B: Integers) -> tuple[Pairs, CounterRng]:
        """Draw B pairs. Return them, and the random generator to pass to `mask`.

        Args:
            epochs_B: the epoch of each pair.
            numbers_B: the number of each pair within its epoch.
        """
        rng = CounterRng(self._seed, (epochs_B, numbers_B))
        short_B = rng.uniform(Purpose.IS_SHORT) < SHORT
        choices_B = np.full(len(numbers_B), self._room - SHORTEST + 1)
        shorter_B = SHORTEST + rng.whole(Purpose.SHORT_LENGTH, choices_B)
        wanted_B = np.where(short_B, shorter_B, self._room)

        shift_B = (
            CounterRng(self._seed, (epochs_B,)).uniform(Purpose.SHIFT) * self._room
        )
        place_B = np.minimum(
            numbers_B * self._room + shift_B.astype(np.int64), self._pieces - 1
        )

        first_B, end_B, document_B = self._stretch(place_B, wanted_B)
        sentences_B = end_B - first_B
        middle_B = first_B + 1 + rng.whole(Purpose.SPLIT, sentences_B - 1)
        start_B, length_B = self._span(first_B, middle_B)
        random_B = (sentences_B == 1) | (rng.uniform(Purpose.RANDOM_NEXT) < RANDOM_NEXT)

        own_B, after_B = self._span(*self._of_document(document_B))
        other_B = rng.whole(Purpose.OTHER_PLACE, self._pieces - after_B)
        # Skip the document of the first text.
        other_B += np.where(other_B >= own_B, after_B, 0)

        rest_B = np.maximum(wanted_B - length_B, 1)
        other_first_B, other_end_B, _ = self._stretch(other_B, rest_B)

        second_B = self._span(
            np.where(random_B, other_first_B, middle_B),
            np.where(random_B, other_end_B, end_B),
        )
        pairs = Pairs(start_B, length_B, *second_B, random_B.astype(np.int64))
        return self.truncated(pairs, rng), rng

    def truncated(self, pairs: Pairs, rng: CounterRng) -> Pairs:
        """Shorten the texts of the pairs until each pair fits into a row.

        In a pair, shorten the longer text first. When both are equally long, shorten both. Remove a
        random part of a text's surplus tokens from its start, and the rest from its end.
        """
        limit_B = np.maximum((self._room + 1) // 2, self._room - pairs.second_length)
        first_B = np.minimum(pairs.first_length, limit_B)
        second_B = np.minimum(pairs.second_length, self._room - first_B)
        lost_first_B = pairs.first_length - first_B
        lost_second_B = pairs.second_length - second_B
        return Pairs(
            pairs.first_start + rng.whole(Purpose.CUT_FIRST, lost_first_B + 1),
            first_B,
            pairs.second_start + rng.whole(Purpose.CUT_SECOND, lost_second_B + 1),
            second_B,
            pairs.random_next,
        )

    def _stretch(
        self, place_B: Integers, wanted_B: Integers
    ) -> tuple[Integers, Integers, Integers]:
        """Choose consecutive sentences of one document for each of B rows.

        The first sentence contains the token at `place_B`. If fewer than `wanted_B` tokens of the
        document follow, the first sentence is an earlier one of the same document.

        Args:
            place_B: the index of a token in the split, for each row.
            wanted_B: the number of tokens that the sentences should have at least.

        Returns:
            Three arrays (B,): the index of the first sentence, the index of the last sentence + 1,
            and the index of the document.
        """
        sentence_B = np.searchsorted(self._sentences, place_B, "right") - 1
        document_B = np.searchsorted(self._documents, sentence_B, "right") - 1
        begin_B, end_B = self._of_document(document_B)

        latest_B = np.maximum(
            self._sentences[end_B] - wanted_B, self._sentences[begin_B]
        )
        first_B = (
            np.searchsorted(self._sentences, np.minimum(place_B, latest_B), "right") - 1
        )
        last_B = np.searchsorted(self._sentences, self._sentences[first_B] + wanted_B)
        last_B = np.where(place_B > latest_B, end_B, np.minimum(last_B, end_B))
        return first_B, last_B, document_B

    def _of_document(self, document_B: Integers) -> tuple[Integers, Integers]:
        """Return the index of each document's first sentence, and one past its last sentence."""
        return self._documents[document_B], self._documents[document_B + 1]

    def _span(self, first_B: Integers, end_B: Integers) -> tuple[Integers, Integers]:
        """Return the start and length, in tokens, of the sentences `first_B` to `end_B` - 1."""
        start_B = self._sentences[first_B]
        return start_B, self._sentences[end_B] - start_B


def rows_of(
    pairs: Pairs, pieces: np.ndarray, sequence_length: int
) -> dict[str, np.ndarray]:
    """Return the arrays tokens, token_type_ids and attention_mask of these pairs, each (B, T).

    A row is [CLS] first text [SEP] second text [SEP], padded with 0.
    """
    first_B1, second_B1 = pairs.first_length[:, None], pairs.second_length[:, None]
    places_T = np.arange(sequence_length)
    # The positions of the two [SEP].
    middle_B1 = first_B1 + 1
    end_B1 = first_B1 + second_B1 + 2
    token_type_ids_BT = (places_T > middle_B1) & (places_T <= end_B1)

    # Compute the place in the split of the token at each position t of a row. It is t + offset in
    # the first text, and t + offset + jump in the second.
    offset_B1 = pairs.first_start[:, None] - 1
    jump_B1 = pairs.second_start[:, None] - 2 - first_B1 - offset_B1
    index_BT = places_T + offset_B1 + token_type_ids_BT * jump_B1

    attention_mask_BT = places_T <= end_B1
    tokens_BT = np.take(pieces, index_BT, mode="clip").astype(np.int64)
    tokens_BT[:, 0] = CLS
    tokens_BT[(places_T == middle_B1) | (places_T == end_B1)] = SEP
    tokens_BT *= attention_mask_BT
    return {
        "tokens": tokens_BT,
        "token_type_ids": token_type_ids_BT.astype(np.int64),
        "attention_mask": attention_mask_BT,
    }


# The model must predict this share of a row's positions, not counting padding. These positions are
# called masked.
FRACTION = 0.15
# At masked positions, [MASK] replaces the share MASKED of the tokens, the share KEPT stays, and
# random tokens replace the rest.
MASKED, KEPT = 0.8, 0.1

Arrays = dict[str, np.ndarray]


class MaskedPairs:
    """The masked rows of one split, with T positions each.

    A row depends only on the seed, the purpose, the epoch and the row number.

    Args:
        sequence_length: T.
        purpose: any text. Different purposes, such as "first phase" and "second phase", give
            different rows.
    """

    def __init__(
        self, documents: EncodedDocuments, sequence_length: int, seed: int, purpose: str
    ) -> None:
        self._pieces = documents.pieces_N
        self._vocabulary = range(len(BERT_MARKS), documents.about["vocabulary_size"])
        self._sequence_length = sequence_length
        self._pairs = PairSource(
            documents, sequence_length, derive(seed, purpose, "rows")
        )
        self._order = Shuffled(len(self._pairs), derive(seed, purpose, "order"))

    def __len__(self) -> int:
        """Return the number of rows in an epoch."""
        return len(self._pairs)

    def shuffled(self, start: int, count: int) -> Arrays:
        """Return `count` rows of an endless stream of shuffled epochs, from position `start` on.

        Returns:
            A dict with the arrays:

            - token_type_ids, attention_mask: see `rows_of`.
            - tokens, places, targets, hidden: see `mask`.
            - next: (B,), 1 if the second text of a row is random, else 0.
        """
        epochs = np.arange(start, start + count) // len(self)
        return self._rows(epochs, self._order.stretch(start, count))

    def ordered(self, start: int, count: int) -> Arrays:
        """Return `count` rows of the first epoch, in order, from row number `start` on.

        The arrays are those of `shuffled`.
        """
        numbers = np.arange(start, start + count)
        return self._rows(np.zeros_like(numbers), numbers)

    def _rows(self, epochs: Integers, numbers: Integers) -> Arrays:
        pairs, rng = self._pairs.draw(epochs, numbers)
        rows = rows_of(pairs, self._pieces, self._sequence_length)
        candidates = (
            rows["attention_mask"] & (rows["tokens"] != CLS) & (rows["tokens"] != SEP)
        )
        lengths = rows["attention_mask"].sum(axis=1)

        hidden = mask(rows["tokens"], candidates, lengths, rng, self._vocabulary)
        return {**rows, **hidden, "next": pairs.random_next}


def predictions(sequence_length: int) -> int:
    """Return M, the largest number of masked positions in a row. Of 128 positions it is 20."""
    return math.ceil(sequence_length * FRACTION)


def mask(
    tokens_BT: Integers,
    candidates_BT: Booleans,
    lengths_B: Integers,
    rng: CounterRng,
    pieces: range,
) -> Arrays:
    """Mask the share FRACTION of each row's positions, but at least one.

    Args:
        candidates_BT: True at positions that may be masked.
        lengths_B: the number of positions of each row, without padding.
        rng: the random generator that drew the rows.
        pieces: the ids of the random tokens that may replace tokens.

    Returns:
        A dict with the arrays:

        - tokens: (B, T), the tokens after masking.
        - places: (B, M), the masked positions.
        - targets: (B, M), the original tokens at `places`.
        - hidden: (B, M), True for masked positions. If a row has fewer than M masked positions, its
          last elements are False. The loss must ignore these.
    """
    rows, length = tokens_BT.shape
    most = predictions(length)
    order_BT = np.where(candidates_BT, rng.uniforms(Purpose.ORDER, length), 2.0)
    places_BM = np.argpartition(order_BT, most - 1, axis=1)[:, :most]
    rank_BM = np.argsort(np.take_along_axis(order_BT, places_BM, 1), axis=1)
    # places_BM has the M positions with the smallest random numbers, in ascending order. In each
    # row, the first `counts_B` of them are masked.
    places_BM = np.take_along_axis(places_BM, rank_BM, 1)

    counts_B = np.clip(np.rint(lengths_B * FRACTION), 1, most)
    hidden_BM = np.arange(most) < counts_B[:, None]
    targets_BM = np.take_along_axis(tokens_BT, places_BM, 1)

    fate_BM = rng.uniforms(Purpose.FATE, most)
    random_BM = rng.uniforms(Purpose.PIECE, most) * len(pieces)
    seen_BM = np.where(
        fate_BM < MASKED, MASK, pieces.start + random_BM.astype(np.int64)
    )
    kept_BM = ~hidden_BM | ((fate_BM >= MASKED) & (fate_BM < MASKED + KEPT))

    tokens_BT = tokens_BT.copy()
    tokens_BT[np.arange(rows)[:, None], places_BM] = np.where(
        kept_BM, targets_BM, seen_BM
    )
    return {
        "tokens": tokens_BT,
        "places": places_BM,
        "targets": targets_BM,
        "hidden": hidden_BM,
    }
