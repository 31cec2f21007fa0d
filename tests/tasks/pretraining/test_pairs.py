"""Tests that pairs of texts and masks are drawn like BERT's, and depend only on counters."""

from types import SimpleNamespace

import numpy as np
import pytest

from sweeper.store.files import publish_json
from tasks.pretraining.documents import ABOUT, FORMAT, EncodedDocuments, encode
from tasks.pretraining.pairs import (
    CounterRng,
    Pairs,
    PairSource,
    mask,
    predictions,
    rows_of,
)

MANY = np.arange(10_007)


def test_seed_counters_and_purpose_each_make_other_numbers():
    base = CounterRng(3, (MANY, MANY)).uniform(2)
    for seed, counters, purpose in (
        (4, (MANY, MANY), 2),
        (3, (MANY + 1, MANY), 2),
        (3, (MANY, MANY + 1), 2),
        (3, (MANY,), 2),
        (3, (MANY, MANY), 3),
    ):
        other = CounterRng(seed, counters).uniform(purpose)
        assert not np.any(base == other)
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.04  # four standard errors


def test_numbers_are_spread_evenly_below_one():
    numbers = CounterRng(0, (MANY,)).uniforms(1, 101)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=256, range=(0, 1))
    expected = numbers.size / 256
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_square - 255) < 5 * np.sqrt(2 * 255)
    neighbours = np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]
    assert abs(neighbours) < 5 / np.sqrt(numbers.size)


MASK, PIECES = 4, range(5, 211)
ROWS, MASKED = 4001, 53


@pytest.fixture(scope="module")
def rows():
    """Return random rows of every length that a pair can have. 0 is padding; 2 and 3 are marks."""
    generator = np.random.default_rng(0)
    tokens = generator.integers(PIECES.start, PIECES.stop, (ROWS, MASKED))
    lengths = generator.integers(5, MASKED + 1, ROWS)
    places = np.arange(MASKED)
    tokens[:, 0] = 2
    tokens[(places == lengths[:, None] - 1) | (places == lengths[:, None] // 2)] = 3
    tokens[places >= lengths[:, None]] = 0
    return {"tokens": tokens, "lengths": lengths}


def masked(rows):
    tokens, lengths = rows["tokens"], rows["lengths"]
    rng = CounterRng(0, (np.arange(len(tokens)),))
    return mask(tokens, tokens >= PIECES.start, lengths, rng, PIECES)


@pytest.mark.parametrize(
    ("length", "most"), [(64, 10), (128, 20), (384, 58), (512, 77)]
)
def test_a_row_has_room_for_fifteen_percent(length, most):
    assert predictions(length) == most


def test_fifteen_percent_of_the_real_positions_are_hidden_and_one_at_least(rows):
    # create_pretraining_data.py: min(max_predictions, max(1, int(round(len(tokens) * 0.15))))
    expected = [
        min(8, max(1, round(length * 0.15))) for length in rows["lengths"].tolist()
    ]
    assert masked(rows)["hidden"].sum(axis=1).tolist() == expected
    assert min(expected) == 1


def test_pieces_alone_are_hidden_and_the_targets_are_what_stood_there(rows):
    before = rows["tokens"].copy()
    result = masked(rows)
    assert np.array_equal(rows["tokens"], before)
    rows_N, slots_N = result["hidden"].nonzero()
    places_N, targets_N = (
        one[rows_N, slots_N] for one in (result["places"], result["targets"])
    )
    assert len(np.unique((rows_N, places_N), axis=1).T) == len(rows_N)
    assert targets_N.min() >= PIECES.start
    restored = result["tokens"].copy()
    restored[rows_N, places_N] = targets_N
    assert np.array_equal(restored, before)


def test_of_the_hidden_80_10_10_percent_become_mask_stay_or_become_any_piece(rows):
    result = masked(rows)
    seen = np.take_along_axis(result["tokens"], result["places"], 1)[result["hidden"]]
    targets = result["targets"][result["hidden"]]
    count = len(seen)
    error = 4 * np.sqrt(0.1 * 0.9 / count)
    assert (seen == MASK).mean() == pytest.approx(0.8, abs=2 * error)
    # A random token is sometimes equal to the original one.
    assert (seen == targets).mean() == pytest.approx(0.1 + 0.1 / len(PIECES), abs=error)
    random = seen[(seen != MASK) & (seen != targets)]
    assert random.min() == PIECES.start
    assert random.max() == PIECES.stop - 1
    assert len(np.unique(random)) > 0.98 * len(PIECES)


def test_every_position_is_hidden_equally_often():
    rows = {"tokens": np.full((ROWS, MASKED), 7), "lengths": np.full(ROWS, MASKED)}
    result = masked(rows)
    counts = np.bincount(result["places"][result["hidden"]], minlength=MASKED)
    expected = ROWS * 8 / MASKED
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


FIRST = 11
CLS, SEP = 2, 3
LENGTH = 61
ROOM = LENGTH - 3


class Numbers:
    """A tokenizer for sentences of numbers. Each number is a token id."""

    def encode_batch_fast(self, sentences, add_special_tokens):
        return [SimpleNamespace(ids=[*map(int, one.split())]) for one in sentences]


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Return 53 documents of 1 to 47 sentences. Some sentences are longer than a row."""
    folder = tmp_path_factory.mktemp("documents")
    generator = np.random.default_rng(0)
    place = FIRST
    written = []
    for number in range(53):
        document = []
        for _ in range((1, 2, 5, 13, 47)[number % 5]):
            size = int(generator.integers(1, 97 if number % 7 == 0 else 23))
            document.append(list(range(place, place + size)))
            place += size
        sentences = (" ".join(map(str, sentence)) for sentence in document)
        written.append(("train", "\n".join(sentences).encode()))
    totals = encode(written, Numbers(), {"train": folder})["train"]
    publish_json(folder / ABOUT, {"format": FORMAT, **totals, "vocabulary_size": place})
    return EncodedDocuments(folder)


def drawn(source, epochs=41):
    numbers = np.tile(np.arange(len(source)), epochs)
    return source.draw(np.repeat(np.arange(epochs), len(source)), numbers)[0]


@pytest.fixture(scope="module")
def source(documents):
    return PairSource(documents, LENGTH, seed=5)


@pytest.fixture(scope="module")
def pairs(source):
    return drawn(source)


def texts_of(pairs):
    """Return the start and the length of each of the two texts."""
    yield pairs.first_start, pairs.first_length
    yield pairs.second_start, pairs.second_length


def document_of(documents, place):
    starts = documents.sentences_S[documents.documents_C]
    return np.searchsorted(starts, place, "right") - 1


@pytest.fixture(scope="module")
def homes(documents, pairs):
    """Return the document of each first text, and that of each second text."""
    return [document_of(documents, start) for start, _ in texts_of(pairs)]


def test_a_pair_fits_a_row_and_neither_text_is_empty(pairs):
    assert pairs.first_length.min() >= 1
    assert pairs.second_length.min() >= 1
    assert (pairs.first_length + pairs.second_length).max() == ROOM


def test_each_text_lies_in_one_document(documents, pairs):
    for start, length in texts_of(pairs):
        last = start + length - 1
        assert last.max() < documents.about["pieces"]
        assert np.array_equal(
            document_of(documents, start), document_of(documents, last)
        )


def test_a_random_second_text_is_another_documents_and_the_next_one_follows(
    documents, pairs, homes
):
    random, (first, second) = pairs.random_next == 1, homes
    assert np.all(first[random] != second[random])
    assert np.all(first[~random] == second[~random])
    end = pairs.first_start + pairs.first_length
    assert np.all(pairs.second_start[~random] >= end[~random])
    # If nothing was cut, the second text begins with the next sentence.
    whole = ~random & (pairs.first_length + pairs.second_length < ROOM)
    assert whole.any()
    assert np.array_equal(pairs.second_start[whole], end[whole])
    assert np.all(np.isin(end[whole], documents.sentences_S))


def test_half_of_the_pairs_and_all_single_sentences_have_a_random_second_text(
    documents, pairs, homes
):
    first, _ = homes
    sentences = np.diff(documents.documents_C)[first]
    assert np.all(pairs.random_next[sentences == 1] == 1)
    # In these documents, sentences have 11 tokens on average, so hardly any of them fills a row.
    short = np.arange(53) % 7 != 0
    of_long = (sentences >= 13) & short[first]
    full = of_long & (pairs.first_length + pairs.second_length > ROOM // 2)
    error = 4 * 0.5 / np.sqrt(full.sum())
    assert pairs.random_next[full].mean() == pytest.approx(0.5, abs=error + 0.02)


def test_documents_take_part_in_proportion_to_their_length(documents, pairs, homes):
    first, second = homes
    starts = documents.sentences_S[documents.documents_C]
    share = np.diff(starts) / documents.about["pieces"]
    counts = np.bincount(first, minlength=53)
    assert counts / counts.sum() == pytest.approx(share, abs=0.003)
    # A random second text comes from any other document, in proportion to its length.
    random = second[pairs.random_next == 1]
    others = share * ((share / (1 - share)).sum() - share / (1 - share))
    counts = np.bincount(random, minlength=53)
    assert counts / len(random) == pytest.approx(
        others, abs=5 * np.sqrt(0.1 / len(random))
    )


def test_rows_are_full_where_their_document_can_fill_them(documents, pairs, homes):
    pieces = np.diff(documents.sentences_S[documents.documents_C])
    first, second = (pieces[home] >= ROOM for home in homes)
    lengths = (pairs.first_length + pairs.second_length)[first & second]
    # One pair in ten is drawn shorter, but whole sentences may make it longer again.
    assert 0.9 < (lengths == ROOM).mean() < 0.98
    assert lengths.min() < 13


def test_every_piece_is_met_in_training(documents, source):
    pairs = drawn(source, epochs=401)
    changes = np.zeros(documents.about["pieces"] + 1, np.int64)
    for start, length in texts_of(pairs):
        np.add.at(changes, start, 1)
        np.subtract.at(changes, start + length, 1)
    assert np.cumsum(changes)[:-1].min() > 0


def test_a_pair_is_a_function_of_seed_epoch_and_number(documents, source):
    numbers = np.arange(len(source))
    epoch = np.zeros_like(numbers)
    base = np.stack(source.draw(epoch, numbers)[0])
    for number in (0, 7, len(source) - 1):
        alone = np.stack(source.draw(epoch[:1], numbers[number : number + 1])[0])
        assert np.array_equal(alone[:, 0], base[:, number])
    for other in (
        source.draw(epoch + 1, numbers)[0],
        PairSource(documents, LENGTH, seed=6).draw(epoch, numbers)[0],
    ):
        assert (np.stack(other) != base).any(axis=0).mean() > 0.9


def test_a_row_is_the_pair_between_its_marks(documents, pairs):
    rows = rows_of(pairs, documents.pieces_N, LENGTH)
    assert rows["tokens"].shape == (len(pairs.first_start), LENGTH)
    for row in range(0, len(pairs.first_start), 101):
        a, b = (
            documents.pieces_N[start[row] :][: length[row]].tolist()
            for start, length in texts_of(pairs)
        )
        expected = {
            "tokens": [CLS, *a, SEP, *b, SEP],
            "token_type_ids": [0] * (len(a) + 2) + [1] * (len(b) + 1),
            "attention_mask": [True] * (len(a) + len(b) + 3),
        }
        for name, values in expected.items():
            rest = [0] * (LENGTH - len(values))
            assert rows[name][row].tolist() == values + rest


def test_a_pair_is_shortened_to_the_lengths_bert_shortens_it_to(source):
    def bert(a, b):  # create_pretraining_data.truncate_seq_pair
        while a + b > ROOM:
            a, b = (a - 1, b) if a > b else (a, b - 1)
        return a, b

    grid = np.array([(a, b) for a in range(1, 131) for b in range(1, 131)])
    zeros = np.zeros(len(grid), np.int64)
    rng = CounterRng(0, (np.arange(len(grid)),))
    cut = source.truncated(Pairs(zeros, grid[:, 0], zeros, grid[:, 1], zeros), rng)
    expected = np.array([bert(a, b) for a, b in grid.tolist()])
    assert np.array_equal(np.stack((cut.first_length, cut.second_length), 1), expected)
    # Between none and all of the removed tokens are cut from the start, on average half of them.
    lost = grid - expected
    front = np.stack((cut.first_start, cut.second_start), 1)
    assert np.all((front >= 0) & (front <= lost))
    much = lost > 9
    assert (front[much] / lost[much]).mean() == pytest.approx(0.5, abs=0.02)
