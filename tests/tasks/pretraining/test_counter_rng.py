"""CounterRng: each a function of its counters alone, and as good as random."""

import numpy as np
import pytest

from tasks.pretraining.pairs import CounterRng

ROWS = np.arange(10_007)


def test_a_draw_does_not_depend_on_the_rows_beside_it():
    together = CounterRng(3, (ROWS // 7, ROWS)).uniforms(5, 11)
    for row in (0, 1, 5003, 10_006):
        alone = CounterRng(3, (ROWS[row : row + 1] // 7, ROWS[row : row + 1])).uniforms(5, 11)
        assert np.array_equal(alone[0], together[row])
    order = np.random.default_rng(0).permutation(len(ROWS))
    assert np.array_equal(CounterRng(3, (order // 7, order)).uniforms(5, 11), together[order])


def test_seed_counters_and_purpose_each_make_other_numbers():
    base = CounterRng(3, (ROWS, ROWS)).uniform(2)
    for other in (
        CounterRng(4, (ROWS, ROWS)).uniform(2),
        CounterRng(3, (ROWS + 1, ROWS)).uniform(2),
        CounterRng(3, (ROWS, ROWS + 1)).uniform(2),
        CounterRng(3, (ROWS,)).uniform(2),
        CounterRng(3, (ROWS, ROWS)).uniform(3),
    ):
        assert not np.any(base == other)
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.04  # four standard errors


def test_numbers_are_spread_evenly_below_one():
    numbers = CounterRng(0, (ROWS,)).uniforms(1, 101)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=256, range=(0, 1))
    expected = numbers.size / 256
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_square - 255) < 5 * np.sqrt(2 * 255)
    neighbours = np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]
    assert abs(neighbours) < 5 / np.sqrt(numbers.size)


def test_whole_numbers_reach_each_value_below_their_limit_equally_often():
    limits = np.where(ROWS % 2, 5, 1)
    drawn = CounterRng(0, (ROWS,)).whole(1, limits)
    assert np.array_equal(np.unique(drawn[::2]), [0])
    values, counts = np.unique(drawn[1::2], return_counts=True)
    assert np.array_equal(values, np.arange(5))
    assert counts == pytest.approx(np.full(5, 1000), abs=130)
