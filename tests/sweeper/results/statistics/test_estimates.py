"""Statistics agree with scipy, and intervals hold the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from sweeper.results.statistics.estimates import (
    Spread,
    estimate,
    interval,
    mean,
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


def test_pooled_spread_is_that_of_analysis_of_variance() -> None:
    groups = [FIRST, SECOND, [40.0, 40.5]]
    spread = pooled([*groups, [39.0]])
    assert spread is not None
    assert spread.df == 4 + 2 + 1
    every = np.concatenate(groups)
    between = sum(len(group) * (np.mean(group) - every.mean()) ** 2 for group in groups) / 2
    assert between / spread.sd**2 == pytest.approx(scipy.stats.f_oneway(*groups).statistic)


def test_a_setting_with_wild_seeds_keeps_its_own_spread() -> None:
    calm = [[40.0, 40.2, 39.9], [41.0, 41.1, 41.3], [42.0, 42.2, 41.8], [43.0, 43.1, 42.8]]
    wild = [40.0, 41.0, 400.0]
    spread = pooled([*calm, wild])
    assert estimate(wild, spread).spread == Spread(sd(wild) or 0.0, 2)
    assert estimate(calm[0], spread).spread == spread


def test_equal_seeds_everywhere_give_an_interval_of_no_width() -> None:
    spread = pooled([[5.0, 5.0], [7.0, 7.0]])
    assert interval(estimate([7.0, 7.0], spread)) == (7.0, 7.0)


@pytest.mark.parametrize("value", [7.8e153, -1e200])
def test_a_seed_that_diverged_has_no_interval_and_leaves_the_others_theirs(value: float) -> None:
    spread = pooled([FIRST, SECOND, [42.0, value]])
    assert spread == pooled([FIRST, SECOND])
    assert interval(estimate([42.0, value], spread)) is None
    assert interval(estimate(FIRST, spread)) is not None
