"""Estimates agree with scipy; intervals hold over any number of analyses."""

import numpy as np
import pytest
import scipy.stats

from sweeper.results.design import All, AnyOf, Contrast, decide, levels
from sweeper.results.points import Point, seed_spread
from sweeper.results.statistics.bimodal import is_bimodal
from sweeper.results.statistics.blocks import (
    Variance,
    estimates,
    first_seeds,
    intervals,
    residual,
    table_of,
    within_points,
)
from sweeper.results.statistics.sequential import (
    DESIGNED,
    FIRST,
    Intervals,
    reach,
)
from sweeper.results.verdict import Decision

ONE = Contrast("", ())
BOTH = All([ONE, ONE])
PAIR = np.array([[1.0, -1.0]])


def drawn(*means, seeds=7):
    """Return a table of random values with these means. It is the same in every call."""
    random = np.random.default_rng(11)
    return [list(mean + random.standard_normal(seeds)) for mean in means]


def estimate(table):
    """Return the estimated difference between the first two points."""
    found = np.array(table, dtype=float)
    weights = np.pad(PAIR, ((0, 0), (0, len(found) - 2)))
    return estimates(found, weights)[0]


@pytest.mark.parametrize("level", [0.025, 0.005])
def test_a_mean_of_nothing_hardly_ever_leaves_its_boundary(level):
    paths = (
        np.random.default_rng(3).standard_normal((10_000, 4 * DESIGNED)).cumsum(axis=1)
    )
    seeds = range(FIRST, 4 * DESIGNED + 1)
    edges = [reach(n, np.inf, level) * n**0.5 for n in seeds]
    outside = (np.abs(paths[:, FIRST - 1 :]) > edges).any(axis=1).mean()
    assert 0.4 * 2 * level < outside <= 2 * level


@pytest.mark.parametrize("holes", [[], [(0, 5), (1, 5), (1, 2)]])
def test_the_residual_is_that_of_a_least_squares_fit_of_points_and_seeds(holes):
    points, seeds = 5, 6
    table = np.array(drawn(*range(points), seeds=seeds)) + np.arange(seeds)
    for hole in holes:
        table[hole] = np.nan
    point, seed = np.nonzero(~np.isnan(table))
    values = table[point, seed]
    effects = np.hstack([np.eye(points)[point], np.eye(seeds)[seed]])
    fitted = effects @ np.linalg.lstsq(effects, values)[0]
    squares, df = ((values - fitted) ** 2).sum(), len(values) - points - seeds + 1
    assert residual(table) == pytest.approx(Variance(squares / df, df))
    assert within_points(table).value > 2 * residual(table).value


def test_a_contrast_is_one_number_a_seed_shrunk_to_the_table():
    table = np.array(drawn(*range(8), seeds=3))
    table[1] = table[0] + [0.1, 0.2, -0.1]  # closer than the others
    found, predicted = estimate(table), 2 * residual(table).value
    own = np.var([-0.1, -0.2, 0.1], ddof=1)
    assert found.value == pytest.approx(-0.2 / 3)
    assert found.error == pytest.approx((2 * own + 4 * predicted) / 6 / 3)
    assert found.df == 6


def test_a_contrast_that_spreads_more_than_the_table_stands_for_itself():
    table = np.array(drawn(*range(8), seeds=3))
    table[1] = table[0] + [9.0, -9.0, 0.0]
    found = estimate(table)
    assert found.error == pytest.approx(81 / 3)
    assert found.df == pytest.approx(2 + 4 * 2 * residual(table).value / 81)


def test_two_points_alone_are_compared_by_the_paired_t_test():
    first, second = drawn(1, 0, seeds=5)
    found = estimate([first, second])
    paired = scipy.stats.ttest_rel(first, second)
    assert found.value / found.error**0.5 == pytest.approx(paired.statistic)
    assert found.df == paired.df == 4


def apart(first, second):
    """Return the table of two points that share no seed."""
    nothing = [np.nan]
    rows = [first + nothing * len(second), nothing * len(first) + second]
    return np.array(rows)


def test_arms_with_seeds_of_their_own_are_compared_by_welchs_t_test():
    """The variance of the narrower arm is pooled with that of the wider one, but not above it."""
    first, second = drawn(1, 0, seeds=6)
    wide = [9 * value for value in second[:4]]
    found = estimate(apart(first, wide))
    own, widest = np.var(first, ddof=1), np.var(wide, ddof=1)
    pooled = (5 * own + 3 * widest) / 8
    terms = np.array([(5 * own + 3 * pooled) / 8 / 6, widest / 4])
    assert found.value == pytest.approx(np.mean(first) - np.mean(wide))
    assert found.error == pytest.approx(terms.sum())
    assert found.df == pytest.approx(terms.sum() ** 2 / (terms**2 / [5, 3]).sum())
    assert found.seeds == 4


def test_points_of_an_arm_keep_their_common_seeds_together():
    """If two points vary together, their mean is less certain than that of independent points."""
    base, other = drawn(0, 0, seeds=8)
    together = np.vstack([apart(base, other), apart(base, other)])
    weights = np.array([[0.5, -0.5, 0.5, -0.5]])
    [found] = estimates(together, weights)
    alone = estimate(apart(base, other))
    assert found.error == pytest.approx(alone.error, rel=0.3)


TIED = [[1.0] * 7, [2.0] * 7]


@pytest.mark.parametrize(
    "pair",
    [
        [[1.0], [5.0]],
        [[1.0, 1.1], [5.0, 5.3]],
        [[1.0] * 7, [1 + 1e-12] * 7],
        [[np.nan], [np.nan]],
    ],
    ids=["one seed", "two seeds", "equal", "unmeasured"],
)
def test_one_seed_or_two_and_values_that_do_not_differ_decide_nothing(pair):
    found = intervals(estimates(np.array(pair), PAIR), np.full((1, 2), 0.005))
    assert [*found.lows, *found.highs] == [-np.inf, np.inf]


@pytest.mark.parametrize(("others", "known"), [((0, 5), False), ((0, 5, 7, 9), True)])
def test_points_whose_seeds_are_tied_have_the_spread_of_many_others(others, known):
    assert (estimate([*TIED, [3.0] * 7, *drawn(*others)]).error > 0) == known


def test_an_interim_analysis_has_the_first_seeds_of_each_point():
    table = table_of([{0: 1.0, 1: 2.0, 2: 3.0}, {1: 4.0, 2: 5.0}])
    early = first_seeds(table, [2, 1])
    assert early.tolist()[0][:2] == [1.0, 2.0]
    assert np.isnan(early).tolist() == [[False, False, True], [True, False, True]]


def test_the_level_is_shared_only_where_any_miss_would_do():
    every = levels(BOTH, 0.01, 0.01)
    assert every.tolist() == [[0.01, 0.005]] * 2
    some = levels(AnyOf([ONE, BOTH]), 0.01, 0.01)
    assert some.tolist() == [[0.005, 0.01], [0.005, 0.005], [0.005, 0.005]]


@pytest.mark.parametrize("ends", [(-2.0, 1.0), (-1.0, 2.0)])
def test_contrasts_are_alike_if_all_lie_within_the_margin_on_both_sides(ends):
    lows, highs = np.transpose([ends, (-1.0, 1.0)])
    found = Intervals((lows + highs) / 2, lows, highs)
    assert decide(BOTH, found, 2.5) is Decision.NO_DIFFERENCE
    assert decide(BOTH, found, 1.5) is Decision.UNDECIDED


TIES = [
    [97.0, 98.0, 97.0, 98.0, 98.0, 97.0],
    [92.0, 93.0, 93.0 + 1e-13, 92.0, 93.0, 92.0],
]
LEARNED = [0.0, 100.0, 100.0, 0.0, 100.0], [0.0, 0.0, 100.0, 0.0, 100.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("seeds", "step", "expected"),
    [
        (drawn(0, 5, seeds=7), np.inf, False),
        ([[0.33, 0.33, 0.34], [0.6, 0.61, 0.6]], np.inf, False),
        ([[0.33, 0.6, 0.34, 0.61, 0.33, 0.6]] * 2, np.inf, True),
        (TIES, np.inf, False),
        (LEARNED, 5.0, True),
    ],
    ids=["normal", "points apart", "modes", "ties on a step", "all or nothing"],
)
def test_bimodal_seeds_are_seen_and_ordinary_seeds_are_not(seeds, step, expected):
    assert is_bimodal(seeds, coarsest=step) is expected


@pytest.mark.parametrize("sds", [[1.0] * 7 + [4.0], np.geomspace(0.2, 0.9, 16)])
def test_intervals_of_figures_hold_for_the_widest_point_and_for_the_narrowest(sds):
    held, experiments, draw = np.zeros(len(sds)), 300, np.random.default_rng(0)
    for _ in range(experiments):
        values = draw.normal(0.0, 1.0, (len(sds), 3)) * np.array(sds)[:, None]
        every = [
            Point("", str(at), {}, values=dict(enumerate(own)), runs={0: str(at)})
            for at, own in enumerate(values.tolist())
        ]
        spreads = seed_spread(every)
        ends = [point.interval(spreads) or (1.0, 0.0) for point in every]
        held += [low <= 0.0 <= high for low, high in ends]
    assert held.min() / experiments > 0.88
    assert held.mean() / experiments > 0.95
