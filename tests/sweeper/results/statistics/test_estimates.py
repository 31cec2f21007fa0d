"""Statistics agree with scipy, and intervals hold the truth as often as they say."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from sweeper.results.statistics.estimates import (
    RESAMPLES,
    Difference,
    Spread,
    bootstrap,
    contrast,
    difference,
    estimate,
    interpolate,
    interval,
    mean,
    monotonicity,
    paired,
    pooled,
    sd,
)

FIRST = [43.1, 42.7, 44.0, 43.3, 42.2]
SECOND = [41.9, 42.4, 41.1]


def test_mean_and_sd_are_scipys() -> None:
    assert mean(FIRST) == pytest.approx(np.mean(FIRST))
    assert sd(FIRST) == pytest.approx(scipy.stats.tstd(FIRST))


def test_one_value_has_no_sd_and_no_interval() -> None:
    assert sd([43.0]) is None
    assert pooled([[43.0], [41.0]]) is None
    assert interval(estimate([43.0], None)) is None


def test_interval_of_one_group_is_students() -> None:
    expected = scipy.stats.ttest_1samp(FIRST, 0.0).confidence_interval(0.95)
    assert interval(estimate(FIRST, pooled([FIRST]))) == pytest.approx(tuple(expected))


def test_difference_of_two_groups_is_the_classical_t_test() -> None:
    spread = pooled([FIRST, SECOND])
    found = difference(estimate(FIRST, spread), estimate(SECOND, spread))
    expected = scipy.stats.ttest_ind(FIRST, SECOND).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert found.value == pytest.approx(np.mean(FIRST) - np.mean(SECOND))


def test_pooled_spread_is_that_of_analysis_of_variance() -> None:
    groups = [FIRST, SECOND, [40.0, 40.5]]
    spread = pooled([*groups, [39.0]])
    assert spread is not None
    assert spread.df == 4 + 2 + 1
    every = np.concatenate(groups)
    between = sum(len(group) * (np.mean(group) - every.mean()) ** 2 for group in groups) / 2
    assert between / spread.sd**2 == pytest.approx(scipy.stats.f_oneway(*groups).statistic)


def test_comparisons_together_are_bonferronis() -> None:
    spread = pooled([FIRST, SECOND])
    a, b = estimate(FIRST, spread), estimate(SECOND, spread)
    together = difference(a, b, comparisons=5)
    assert together == difference(a, b, level=0.99)


def test_paired_difference_is_the_paired_t_test() -> None:
    a, b = {0: 43.1, 2: 42.0, 3: 44.1, 7: 40.0}, {3: 42.0, 0: 42.2, 2: 41.7, 11: 0.0}
    found = paired((a, b))
    expected = scipy.stats.ttest_rel([43.1, 42.0, 44.1], [42.2, 41.7, 42.0])
    assert found is not None
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert paired(({0: 1.0}, {1: 1.0})) is None
    alone = paired(({0: 3.0}, {0: 1.0}))
    assert alone is not None
    assert (alone.value, alone.low) == (2.0, None)


def test_bootstrap_is_scipys_percentile_interval() -> None:
    def mean_of(values: np.ndarray, axis: int = -1) -> np.ndarray:
        return values.mean(axis=axis)

    expected = scipy.stats.bootstrap(
        (np.array(FIRST),),
        mean_of,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(17),
    ).confidence_interval
    assert bootstrap([FIRST], mean_of, seed=17) == pytest.approx(tuple(expected))
    assert bootstrap([[1.0], [2.0]], mean_of) is None


def test_bootstrap_says_the_same_always() -> None:
    once = monotonicity([FIRST, SECOND, [40.0, 41.5]])
    np.random.default_rng(5).random(3)
    assert monotonicity([FIRST, SECOND, [40.0, 41.5]]) == once


def test_order_agreement_is_somers_d() -> None:
    groups = [FIRST, SECOND, [42.3, 41.0, 39.9, 42.4]]
    order = np.concatenate([[i] * len(group) for i, group in enumerate(groups)])
    expected = scipy.stats.somersd(order, np.concatenate(groups)).statistic
    found = monotonicity(groups)
    assert found.value == pytest.approx(expected)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high < 0


def test_the_interval_of_order_agreement_is_that_of_groups_drawn_again() -> None:
    groups = [FIRST, SECOND, [42.3, 41.0, 39.9, 42.4]]

    def somers_d(*drawn: np.ndarray) -> np.ndarray:
        steps, pairs = np.zeros(len(drawn[0])), 0
        for earlier, later in itertools.combinations(drawn, 2):
            steps += np.sign(later[:, None, :] - earlier[:, :, None]).sum(axis=(-2, -1))
            pairs += earlier.shape[-1] * later.shape[-1]
        return steps / pairs

    found = monotonicity(groups)
    assert (found.low, found.high) == bootstrap(groups, somers_d)


@pytest.mark.parametrize(("direction", "expected"), [(1, 1.0), (-1, -1.0)], ids=["rise", "fall"])
def test_monotonicity_of_a_steady_curve_is_whole(direction: int, expected: float) -> None:
    groups = [[direction * step + noise for noise in (0.0, 0.1)] for step in range(7)]
    assert monotonicity(groups).value == expected


def _worlds(settings: int, seeds: int) -> np.ndarray:
    return np.random.default_rng(3).normal(0, 1, (1000, settings, seeds))


def test_intervals_of_three_seeds_hold_the_truth_as_often_as_they_say() -> None:
    held = []
    for world in _worlds(13, 3).tolist():
        spread = pooled(world)
        ends = interval(estimate(world[0], spread))
        assert ends is not None
        held.append(ends[0] <= 0 <= ends[1])
    assert 0.93 < np.mean(held) < 0.97


def test_the_bootstrap_of_three_seeds_does_not() -> None:
    held = []
    for [world] in _worlds(1, 3)[:300].tolist():
        ends = bootstrap([world], lambda values: values.mean(axis=-1))
        assert ends is not None
        held.append(ends[0] <= 0 <= ends[1])
    assert np.mean(held) < 0.85


def test_picking_the_largest_of_many_differences_is_rarely_fooled() -> None:
    fooled = []
    for world in _worlds(6, 3).tolist():
        spread = pooled(world)
        first, *others = (estimate(values, spread) for values in world)
        best = max(others, key=lambda one: one.mean)
        found = difference(best, first, comparisons=len(others))
        fooled.append(found.low is not None and found.low > 0)
    assert np.mean(fooled) < 0.03  # 2.5 % for one side


def test_a_setting_with_wild_seeds_keeps_its_own_spread() -> None:
    calm = [[40.0, 40.2, 39.9], [41.0, 41.1, 41.3], [42.0, 42.2, 41.8], [43.0, 43.1, 42.8]]
    wild = [40.0, 41.0, 400.0]
    spread = pooled([*calm, wild])
    assert estimate(wild, spread).spread == Spread(sd(wild) or 0.0, 2)
    assert estimate(calm[0], spread).spread == spread
    found = difference(estimate(wild, spread), estimate(calm[0], spread))
    assert found.low is not None
    assert found.low < 0 < found.value


def test_equal_seeds_everywhere_give_an_interval_of_no_width() -> None:
    spread = pooled([[5.0, 5.0], [7.0, 7.0]])
    found = difference(estimate([7.0, 7.0], spread), estimate([5.0, 5.0], spread))
    assert (found.low, found.value, found.high) == (2.0, 2.0, 2.0)


def test_interpolation_is_straight_in_log_size() -> None:
    curve = [(16e6, 30.0), (4e6, 40.0), (64e6, 26.0), (4e6, 42.0)]
    expected = np.interp(math.log(23e6), np.log([4e6, 16e6, 64e6]), [41.0, 30.0, 26.0])
    assert interpolate(curve, 23e6) == pytest.approx(expected)
    assert interpolate(curve, 64e6) == 26.0
    assert interpolate(curve, 4e6 - 1) is None
    assert interpolate(curve, 65e6) is None
    assert interpolate([(7.0, 1.0)], 7.0) == 1.0
    assert interpolate([], 7.0) is None


def test_pairs_of_arms_are_averaged_with_the_spread_of_all_of_them() -> None:
    """With equal numbers of seeds that is the t interval of the grand mean, spread within pairs."""
    pairs = [
        ({0: 43.1, 1: 42.0, 2: 44.1}, {0: 42.2, 1: 41.7, 2: 42.0}),
        ({0: 40.0, 1: 41.0, 2: 39.0, 3: 5.0}, {0: 39.5, 1: 39.9, 2: 38.0}),
    ]
    found = paired(*pairs)
    differences = np.array([[0.9, 0.3, 2.1], [0.5, 1.1, 1.0]])
    error = np.sqrt(differences.var(axis=1, ddof=1).mean() / differences.size)
    assert found is not None
    assert found.value == pytest.approx(differences.mean())
    expected = scipy.stats.t(4, differences.mean(), error).interval(0.95)
    assert (found.low, found.high) == pytest.approx(expected)


def test_a_contrast_of_four_groups_is_the_interaction_of_analysis_of_variance() -> None:
    groups = [FIRST, SECOND, [40.0, 40.5], [39.0, 38.2, 38.8]]
    spread = pooled(groups)
    known = [estimate(values, spread) for values in groups]
    found = contrast(list(zip((1, -1, -1, 1), known, strict=True)))
    assert spread is not None
    error = spread.sd * np.sqrt(sum(1 / len(values) for values in groups))
    value = np.dot((1, -1, -1, 1), [np.mean(values) for values in groups])
    expected = scipy.stats.t(spread.df, value, error).interval(0.95)
    assert (found.low, found.high) == pytest.approx(expected)
    one = contrast([(1, known[0]), (1, estimate([1.0], None))])
    assert (one.low, one.high) == (None, None)


def test_a_difference_turned_round_keeps_its_ends_in_order() -> None:
    assert Difference(2.0, 1.0, 5.0).times(-1) == Difference(-2.0, -5.0, -1.0)
    assert Difference(2.0, None, None).times(-100) == Difference(-200.0, None, None)
