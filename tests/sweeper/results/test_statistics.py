"""Estimates agree with scipy; intervals hold over any number of analyses; decisions have costs."""

import numpy as np
import pytest
import scipy.stats

from sweeper.results.design import slopes
from sweeper.results.points import Point, seed_spread
from sweeper.results.statistics.estimates import Spread, interval, mean, pooled, sd, spread_of
from sweeper.results.statistics.expected_cost import (
    MOST,
    Known,
    allocated,
    expected_cost,
    seeds_to_exclude,
)
from sweeper.results.statistics.sequential import (
    DESIGNED,
    FIRST,
    Above,
    All,
    AnyOf,
    Intervals,
    Same,
    bound,
    closed,
    crossed,
    decisions,
    effective_seeds,
    interim_analyses,
    intervals,
    levels,
    reach,
)
from sweeper.results.statistics.spreads import Sample, errors, identical, is_bimodal, moderated
from sweeper.results.statistics.spreads import sample as sample_by_seed

PAIR = np.array([[1.0, -1.0]])
EVEN = np.full((1, 2), 0.005)


def drawn(*means: float, seeds: int = 7, spread: float = 1.0) -> list[list[float]]:
    """Seeds of points with these means; the same always."""
    random = np.random.default_rng(11)
    return [list(mean + spread * random.standard_normal(seeds)) for mean in means]


def sample(groups: list[list[float]]) -> Sample:
    """The sample of points that share the seeds 0, 1, ..."""
    return sample_by_seed([dict(enumerate(values)) for values in groups])


@pytest.mark.parametrize("level", [0.025, 0.005])
def test_a_mean_of_nothing_hardly_ever_leaves_its_boundary(level):
    paths = np.random.default_rng(3).standard_normal((10_000, 4 * DESIGNED)).cumsum(axis=1)
    seeds = np.arange(1, paths.shape[1] + 1)
    outside = (np.abs(paths) > bound(seeds, level) * np.sqrt(seeds)).any(axis=1).mean()
    assert 0.6 * 2 * level < outside <= 2 * level


def test_there_is_no_boundary_before_the_first_look_and_one_for_ever_after():
    assert np.isinf(bound([0, 1, FIRST - 1], 0.01)).all()
    late = bound([DESIGNED + 1, 2 * DESIGNED, 2 * DESIGNED + 1, 10**6], 0.01)
    assert np.all(np.diff(late) >= 0)
    assert late[-1] < 7
    assert np.isinf(reach(FIRST - 1, 5, 0.01))
    with pytest.raises(ValueError, match="level"):
        bound(5, 0.0)


def test_the_chance_to_cross_the_boundary_is_what_simulation_finds():
    effect, sd, level = 1.3, 1.7, 0.01
    paths = effect * np.arange(1, DESIGNED + 1) + sd * np.random.default_rng(5).standard_normal(
        (10_000, DESIGNED)
    ).cumsum(axis=1)
    seeds = np.arange(FIRST, DESIGNED + 1)
    out = np.abs(paths[:, FIRST - 1 :]) > bound(seeds, level) * sd * np.sqrt(seeds)
    stops = np.where(out.any(axis=1), FIRST + out.argmax(axis=1), DESIGNED)
    decided = crossed(bound(seeds, level), effect / sd)
    assert FIRST + (1 - decided[:-1]).sum() == pytest.approx(stops.mean(), rel=0.01)
    assert decided[-1] == pytest.approx(out.any(axis=1).mean(), abs=0.01)
    assert crossed(bound(seeds, level))[-1] <= 2 * level


def test_a_seed_that_diverged_widens_its_own_point_alone():
    usual = drawn(0, 0, 0, 0, 0, seeds=5)
    beside = moderated(sample([*usual, [1e6, 0.1, 0.2]]))
    alone = moderated(sample(usual))
    assert beside.variances[:5] == pytest.approx(alone.variances, rel=0.5)
    assert beside.variances[5] > 1e11
    squared, _ = moderated(sample([*usual, [7.8e170, 0.1, 0.2]])).of(
        np.array([[1, 0, 0, 0, 0, -1.0], [1, -1, 0, 0, 0, 0]]), np.array([5, 5, 5, 5, 5, 3.0])
    )
    assert np.isinf(squared[0])
    assert np.isfinite(squared[1])


def test_spreads_that_are_alike_are_shared_and_others_are_not():
    alike = moderated(sample(drawn(*range(13), seeds=7)))
    own = sample(drawn(*range(13), seeds=7)).variances
    assert np.subtract(*np.quantile(alike.variances, [0.75, 0.25])) < 0.2 * np.subtract(
        *np.quantile(own, [0.75, 0.25])
    )
    assert np.median(alike.df) > 13
    two = sample(drawn(0, 0, seeds=5))
    assert moderated(two).variances == pytest.approx(two.variances)
    wide = sample([*drawn(*range(11), seeds=7), list(np.array(drawn(0, seeds=7)[0]) * 5)])
    assert moderated(wide).variances[-1] == pytest.approx(wide.variances[-1])
    assert moderated(wide).df[-1] == 6  # its own: the others say nothing about it


def test_points_that_share_no_seeds_have_errors_of_their_own():
    values, weights = sample(drawn(*range(9), seeds=7)).values, np.array([[1, -1] + [0] * 7])
    apart = np.full((9, 14), np.nan)
    apart[::2, :7], apart[1::2, 7:] = values[::2], values[1::2]
    shared, own = (Sample(one) for one in (values, apart))
    found = errors(own, weights, moderated(own))
    assert found.common == pytest.approx(own.variances[:2].sum() / 7)
    assert found.common_df <= 10 < errors(shared, weights, moderated(shared)).common_df
    for few in (1, 2):  # seeds that say nothing of their own spread
        fewer = own.first([few, *[7] * 8])
        assert np.isinf(errors(fewer, weights, moderated(fewer)).common)


@pytest.mark.parametrize(
    ("first", "second"), [(8, 8), (8, 24), (range(8), range(3, 11)), (range(8), range(20, 28))]
)
def test_the_paired_error_is_right_for_arms_whose_seeds_differ(first, second):
    random, count = np.random.default_rng(3), 4000
    effect = random.standard_normal((count, 1, 30))  # of the seed, on all points
    values = 0.9 * effect + 0.44 * random.standard_normal((count, 8, 30))
    there = np.zeros((8, 30), dtype=bool)
    for points, seeds in ((slice(0, 4), first), (slice(4, 8), second)):
        there[points, np.arange(30)[list(range(seeds)) if isinstance(seeds, int) else seeds]] = True
    given = Sample(np.where(there, values, np.nan))
    weights = np.array([[0.25] * 4 + [-0.25] * 4])
    found = errors(given, weights, moderated(given))
    estimates = (given.means @ weights.T)[:, 0]
    paired = found.common if np.isinf(found.paired).all() else found.paired
    assert paired.mean() == pytest.approx((estimates**2).mean(), rel=0.1)


def test_a_block_of_one_or_two_seeds_gets_the_most_that_the_spreads_allow():
    random = np.random.default_rng(5)
    values = random.standard_normal((4, 9))
    whole, short = (
        Sample(values),
        Sample(np.where(np.arange(9) < [[9], [9], [8], [8]], values, np.nan)),
    )
    weights = np.array([[0.5, 0.5, -0.5, -0.5]])
    found = errors(short, weights, moderated(short))
    spread = moderated(short)
    block = short.residuals[:, :8].T @ (weights[0] / short.counts)
    most = (np.sqrt(spread.variances[:2]) @ weights[0, :2] / 9) ** 2
    assert found.paired == pytest.approx(8 * block.var(ddof=1) + most)
    assert found.paired_df > errors(whole, weights, moderated(whole)).paired_df - 2


def test_one_point_out_of_step_is_not_believed_to_follow_the_others():
    values = with_seed_effect(0.95, points=8, seeds=4)
    values[0] = np.roll(values[0], 1)
    given, weights = Sample(values), np.pad(PAIR, ((0, 0), (0, 6)))
    others = errors(given, np.roll(weights, 2, axis=1), moderated(given)).common
    assert errors(given, weights, moderated(given)).common > 3 * others


def test_one_seed_or_two_and_values_that_do_not_differ_decide_nothing():
    equal = [[1.0] * 7, [1 + 1e-12] * 7]
    for groups in ([[1.0], [5.0]], [[1.0, 1.1], [5.0, 5.1]], equal, [[], []]):
        found = intervals(sample(groups), PAIR, EVEN)
        assert np.isinf(found.lows).all()
        assert np.isinf(found.highs).all()
    assert identical(sample([[1.0] * 7, [2.0] * 7])).all()
    assert identical(sample([[3.0, 3.0 + 1e-13], [3.0, 3.0]])).all()
    assert not identical(sample(drawn(0, 5))).any()
    tied = [[1.0] * 7, [2.0] * 7]
    assert identical(sample([*tied, [3.0] * 7, *drawn(0, 5)])).tolist() == [True] * 3 + [False] * 2
    assert not identical(sample([*tied, *drawn(0, 5, 7, 9)])).any()  # they lend a spread
    with pytest.raises(ValueError, match="finite"):
        sample([[float("nan"), 1.0]])


def test_what_was_decided_stays_decided():
    groups = drawn(9, 0, seeds=7)
    assert closed(intervals(interim_analyses(sample(groups)), PAIR, EVEN)).lows > 0
    later = [[*values, 4.5] for values in groups]
    later[0] += [-30.0]
    found = closed(intervals(interim_analyses(sample(later)), PAIR, EVEN))
    assert found.lows > 0
    assert intervals(sample(later), PAIR, EVEN).lows < 0


def test_a_round_that_follows_keeps_the_analyses_of_the_first():
    values = sample(drawn(0, 0, seeds=7))
    first = interim_analyses(values.first([5, 4]))
    assert first.counts.tolist() == [[3, 3], [4, 4], [5, 4]]
    later = interim_analyses(values, [[5, 4], [6, 5]])
    assert later.counts.tolist() == [[3, 3], [4, 4], [5, 4], [6, 5], [7, 7]]


def reaches(values: Sample, weights: np.ndarray) -> float:
    """How far the interval of a contrast reaches."""
    found = intervals(values, weights, EVEN)
    return float(found.highs[..., 0] - found.values[..., 0])


def with_seed_effect(share: float, points: int = 6, seeds: int = 23) -> np.ndarray:
    """Values of variance 1, of which an effect of the seed has this share."""
    random = np.random.default_rng(13)
    effect, own = random.standard_normal((1, seeds)), random.standard_normal((points, seeds))
    return np.sqrt(share) * effect + np.sqrt(1 - share) * own


@pytest.mark.parametrize("seeds", [4, 23])
def test_points_that_share_seeds_are_compared_seed_by_seed(seeds):
    values = with_seed_effect(0.9)[:, :seeds]
    weights = np.pad(PAIR, ((0, 0), (0, 4)))
    apart = np.full((6, 6 * seeds), np.nan)  # no seed in common
    for place, own in enumerate(values):
        apart[place, place * seeds : (place + 1) * seeds] = own
    assert reaches(Sample(values), weights) < 0.8 * reaches(Sample(apart), weights)


def test_a_correlation_that_does_harm_widens_the_interval():
    values = with_seed_effect(0.0)
    weights = np.pad(PAIR, ((0, 0), (0, 4)))
    alone = reaches(Sample(values), weights)
    values[1] = -0.8 * values[0] + 0.6 * values[1]
    assert reaches(Sample(values), weights) > 1.2 * alone


def test_a_missing_seed_is_a_hole_and_shifts_no_other():
    first, second = with_seed_effect(0.99, points=2, seeds=7)
    whole = pair_errors([dict(enumerate(first)), dict(enumerate(second))])
    without = {seed: value for seed, value in enumerate(second) if seed != 3}
    hole = pair_errors([dict(enumerate(first)), without])
    shifted = pair_errors([dict(enumerate(first)), dict(enumerate(without.values()))])
    assert hole.seeds == shifted.seeds == 6
    assert hole.single < 3 * whole.single < shifted.single


def pair_errors(groups):
    """The errors of the difference of two points, given their values by seed."""
    given = sample_by_seed(groups)
    return errors(given, PAIR, moderated(given))


def test_a_skewed_arm_beside_a_narrow_one_reaches_further():
    random = np.random.default_rng(17)
    skewed, narrow = np.exp(random.standard_normal(13)), random.standard_normal(13)

    def stretched(narrow: np.ndarray) -> float:
        return float(pair_errors([dict(enumerate(v)) for v in (skewed, narrow)]).skew[0])

    assert stretched(0.01 * narrow) > 1.5
    assert stretched(0.01 * narrow) > 2 * stretched(narrow * skewed.std())


def test_the_level_is_shared_only_where_any_miss_would_do():
    half = 0.05 / 5 / 2
    every = levels(All((Above(0), Above(1))), 2, claims=5)
    assert every == pytest.approx(np.array([[half, half / 2]] * 2))
    surer = levels(All((Above(0), Above(1))), 2, claims=5, error=0.01)
    assert surer == pytest.approx(every / 5)
    some = levels(AnyOf((Above(0), All((Above(1), Above(2))))), 3, claims=5)
    expected_levels = [[half / 2, half], [half / 2, half / 2], [half / 2, half / 2]]
    assert some == pytest.approx(np.array(expected_levels))
    assert levels(Same(0), 1, claims=5) == pytest.approx(np.array([[half, half]]))


def seen(*ends: tuple[float, float]) -> Intervals:
    """Intervals with these ends."""
    low, high = np.array(ends, dtype=float).T
    return Intervals((low + high) / 2, low, high)


@pytest.mark.parametrize(
    ("claim", "found", "margin", "said"),
    [
        (Above(0), [(1, 3)], 9, "supported"),
        (Above(0), [(-3, -1)], 9, "not_supported"),
        (Above(0), [(-2, 3)], 9, "no_difference"),
        (Above(0), [(-2, 3)], 2.5, None),
        (Above(0), [(-2, 3)], float("nan"), None),
        (Same(0), [(-1, 1)], 2, "supported"),
        (Same(0), [(3, 4)], 2, "not_supported"),
        (Same(0), [(1, 4)], 2, None),
        (All((Above(0), Above(1))), [(1, 2), (1, 2)], 9, "supported"),
        (All((Above(0), Above(1))), [(1, 2), (-2, -1)], 9, "not_supported"),
        (All((Above(0), Above(1))), [(1, 2), (-2, 1)], float("nan"), None),
        (AnyOf((Above(0), Above(1))), [(1, 2), (-2, -1)], 9, "supported"),
        (AnyOf((Above(0), Above(1))), [(-2, -1), (-2, -1)], 9, "not_supported"),
        (AnyOf((Above(0), Above(1))), [(-2, -1), (-2, 1)], float("nan"), None),
    ],
)
def test_answers_follow_from_intervals(claim, found, margin, said):
    answered = decisions(claim, seen(*found), np.full(len(found), margin))._asdict()
    assert [name for name, holds in answered.items() if holds] == ([said] if said else [])


def test_a_smaller_difference_is_dearer_and_none_at_all_has_no_end():
    prices = seeds_to_exclude(np.array([4, 2, 1, 0.5, 0.0]), np.full(5, 1.4), 0.005)
    assert np.all(np.diff(prices) > 0)
    assert prices[-1] == MOST
    likely = seeds_to_exclude(np.array([1.0]), np.array([1.4]), 0.005, chance=0.8)
    assert likely > prices[2]


@pytest.mark.parametrize("sizes", [(2, 4, 8), (3, 6, 12), (2, 4, 16)])
@pytest.mark.parametrize("seeds", [FIRST, DESIGNED])
def test_equal_seeds_of_a_trend_are_counted_exactly(sizes, seeds):
    [trend] = effective_seeds(np.array([slopes(sizes)]), np.full(len(sizes), float(seeds)))
    assert trend == seeds  # 3 rounded down had no interval, 30 rounded up a boundary for more


def test_the_cheapest_way_to_an_answer_is_priced_and_bought():
    groups = drawn(0.1, 0, 2, 0, 0, 0, seeds=5)
    weights = np.array([[1, -1, 0, 0, 0, 0], [0, 0, 1, -1, 0, 0.0]])
    now = sample(groups)
    claim = AnyOf((Above(0), Above(1)))
    ends = levels(claim, 2)
    found = intervals(now, weights, np.full((2, 2), 1e-9))
    single = errors(now, weights, moderated(now)).single
    counts = effective_seeds(weights, now.counts)
    so_far = Known(found, np.sqrt(single), counts, ends, np.full(2, np.nan))
    cost = expected_cost(claim, so_far)
    assert cost.needs[0] == 0
    assert cost.needs[1] == cost.seeds > 5
    more = allocated(weights, cost.needs, now.counts, costs=np.ones(6), most=29, runs=3)
    assert more.sum() <= 3
    assert more[[0, 1, 4, 5]].sum() == 0 < more[[2, 3]].sum()


@pytest.mark.parametrize(
    ("counts", "costs", "most", "bought"),
    [
        ((5, 5, 5, 5), (1, 1, 1, 1), 29, [1, 1, 1, 0]),
        ((5, 7, 7, 5), (1000, 1, 1, 1), 29, [2, 1, 0, 0]),
        ((5, 5, 5, 5), (1, 1, 1, 1), 5, [0, 0, 0, 0]),
        ((29, 29, 29, 0), (1, 1, 1, 1), 97, [0, 0, 0, 0]),
        ((0, 1, 3, 0), (1, 1, 1, 1), 29, [3, 2, 0, 0]),  # the first analysis, whatever it takes
    ],
)
def test_seeds_go_where_they_narrow_most_for_their_cost(counts, costs, most, bought):
    weights, needs = np.array([[1, -0.5, -0.5, 0]]), np.array([23.0])
    now = np.array(counts)
    more = allocated(weights, needs, now, costs=np.array(costs), most=most, runs=3)
    assert more.tolist() == bought


def test_bimodal_seeds_are_seen_and_ordinary_seeds_are_not():
    assert is_bimodal([[0.33, 0.6, 0.34, 0.61, 0.33, 0.6], [0.6, 0.61, 0.33, 0.6, 0.34, 0.33]])
    assert not is_bimodal(drawn(0, 5, seeds=7))
    assert not is_bimodal([[0.33, 0.33, 0.34], [0.6, 0.61, 0.6]])


def test_ties_on_the_steps_of_a_metric_are_no_modes():
    tied = [[97.0, 98.0, 97.0, 98.0, 98.0, 97.0], [92.0, 93.0, 93.0 + 1e-13, 92.0, 93.0, 92.0]]
    assert not is_bimodal(tied)
    assert is_bimodal([[33.0, 95.0, 33.0, 94.7, 95.0, 33.3], [33.3, 95.0, 95.0, 95.0, 33.0, 33.3]])
    learned = [[0.0, 100.0, 100.0, 0.0, 100.0], [0.0, 0.0, 100.0, 0.0, 100.0, 0.0, 0.0]]
    assert is_bimodal(learned, coarsest=5.0)


CALM = [43.1, 42.7, 44.0, 43.3, 42.2]
OTHER = [41.9, 42.4, 41.1]


def test_mean_sd_and_the_interval_of_one_group_are_scipys():
    assert mean(CALM) == pytest.approx(np.mean(CALM))
    assert sd(CALM) == pytest.approx(scipy.stats.tstd(CALM))
    expected = scipy.stats.ttest_1samp(CALM, 0.0).confidence_interval(0.95)
    assert interval(mean(CALM), 5, pooled([CALM])) == pytest.approx(tuple(expected))
    assert sd([43.0]) is None
    assert pooled([[43.0], [41.0]]) is None
    assert interval(43.0, 1, None) is None


def test_pooled_spread_is_that_of_analysis_of_variance():
    groups = [CALM, OTHER, [40.0, 40.5]]
    spread = pooled([*groups, [39.0]])
    assert spread is not None
    assert spread.df == 4 + 2 + 1
    every = np.concatenate(groups)
    between = sum(len(group) * (np.mean(group) - every.mean()) ** 2 for group in groups) / 2
    assert between / spread.sd**2 == pytest.approx(scipy.stats.f_oneway(*groups).statistic)


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


def test_a_setting_with_wild_seeds_keeps_its_own_spread():
    calm = [[40.0, 40.2, 39.9], [41.0, 41.1, 41.3], [42.0, 42.2, 41.8], [43.0, 43.1, 42.8]]
    wild = [40.0, 41.0, 400.0]
    spread = pooled([*calm, wild])
    assert spread_of(wild, spread) == Spread(sd(wild) or 0.0, 2)
    assert spread_of(calm[0], spread) == spread
    equal = pooled([[5.0, 5.0], [7.0, 7.0]])
    assert interval(7.0, 2, spread_of([7.0, 7.0], equal)) == (7.0, 7.0), "an interval of no width"


@pytest.mark.parametrize("value", [7.8e153, -1e200])
def test_a_seed_that_diverged_has_no_interval_and_leaves_the_others_theirs(value):
    spread = pooled([CALM, OTHER, [42.0, value]])
    assert spread == pooled([CALM, OTHER])
    assert spread_of([42.0, value], spread) is None
    assert spread_of(CALM, spread) == spread
