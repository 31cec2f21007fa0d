"""Masking: how much is hidden, what becomes of it, and what is never touched."""

import numpy as np
import pytest

from tasks.pretraining.pairs import CounterRng, mask, predictions

MASK, PIECES = 4, range(5, 211)
ROWS, LENGTH = 4001, 53


@pytest.fixture(scope="module")
def rows():
    """Rows of random pieces, of every length that a pair can have; 0 is padding, 2 and 3 marks."""
    generator = np.random.default_rng(0)
    tokens = generator.integers(PIECES.start, PIECES.stop, (ROWS, LENGTH))
    lengths = generator.integers(5, LENGTH + 1, ROWS)
    places = np.arange(LENGTH)
    tokens[:, 0] = 2
    tokens[(places == lengths[:, None] - 1) | (places == lengths[:, None] // 2)] = 3
    tokens[places >= lengths[:, None]] = 0
    return {"tokens": tokens, "lengths": lengths}


def masked(rows, seed=0):
    tokens, lengths = rows["tokens"], rows["lengths"]
    rng = CounterRng(seed, (np.arange(len(tokens)),))
    return mask(tokens, tokens >= PIECES.start, lengths, rng, PIECES, MASK)


@pytest.mark.parametrize(("length", "most"), [(64, 10), (128, 20), (384, 58), (512, 77)])
def test_a_row_has_room_for_fifteen_percent(length, most):
    assert predictions(length) == most


def test_fifteen_percent_of_the_real_positions_are_hidden_and_one_at_least(rows):
    # create_pretraining_data.py: min(max_predictions, max(1, int(round(len(tokens) * 0.15))))
    expected = [min(8, max(1, round(length * 0.15))) for length in rows["lengths"].tolist()]
    assert masked(rows)["hidden"].sum(axis=1).tolist() == expected
    assert min(expected) == 1


def test_targets_are_what_stood_there_and_marks_and_padding_are_never_hidden(rows):
    result, tokens = masked(rows), rows["tokens"]
    there = np.take_along_axis(tokens, result["places"], 1)[result["hidden"]]
    assert np.array_equal(result["targets"][result["hidden"]], there)
    assert there.min() >= PIECES.start
    for places, hidden in zip(result["places"], result["hidden"], strict=True):
        assert len(set(places[hidden].tolist())) == hidden.sum()


def test_what_is_not_hidden_stays(rows):
    before = rows["tokens"].copy()
    result = masked(rows)
    assert np.array_equal(rows["tokens"], before)
    untouched = np.ones_like(before, bool)
    for row, (places, hidden) in enumerate(zip(result["places"], result["hidden"], strict=True)):
        untouched[row, places[hidden]] = False
    assert np.array_equal(result["tokens"][untouched], before[untouched])


def test_of_the_hidden_80_10_10_percent_become_mask_stay_or_become_any_piece(rows):
    result = masked(rows)
    seen = np.take_along_axis(result["tokens"], result["places"], 1)[result["hidden"]]
    targets = result["targets"][result["hidden"]]
    count = len(seen)
    error = 4 * np.sqrt(0.1 * 0.9 / count)
    assert (seen == MASK).mean() == pytest.approx(0.8, abs=2 * error)
    # A random piece is now and then the one that stood there.
    assert (seen == targets).mean() == pytest.approx(0.1 + 0.1 / len(PIECES), abs=error)
    random = seen[(seen != MASK) & (seen != targets)]
    assert random.min() == PIECES.start
    assert random.max() == PIECES.stop - 1
    assert len(np.unique(random)) > 0.98 * len(PIECES)


def test_every_position_is_hidden_equally_often():
    rows = {"tokens": np.full((ROWS, LENGTH), 7), "lengths": np.full(ROWS, LENGTH)}
    result = masked(rows)
    counts = np.bincount(result["places"][result["hidden"]], minlength=LENGTH)
    expected = ROWS * 8 / LENGTH
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_another_draw_hides_others(rows):
    first, again, other = masked(rows), masked(rows), masked(rows, seed=1)
    assert all(np.array_equal(first[key], again[key]) for key in first)
    assert (np.sort(first["places"]) != np.sort(other["places"])).mean() > 0.5
