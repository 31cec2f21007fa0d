"""Estimates and intervals of contrasts. Seeds are blocks, as in a randomized block design.

Usually, all points of a claim share their seeds. Then a contrast with weights w_p of points p has
one value for each of the n seeds s: d_s, the sum over p of w_p * values[p, s]. The variance v of
these values is their sample variance s2, shrunk towards a prediction r2 from the whole table of
points and seeds. r2 is the sum of w_p^2, multiplied by the residual mean square after the effects
of points and of seeds are removed. The prediction has the weight of four degrees of freedom, or of
fewer if s2 is larger than r2:

    v = max(s2, ((n - 1) * s2 + 4 * r2) / (n - 1 + 4))
    df = n - 1 + 4 * min(1, r2 / s2)
    interval: mean(d) +- reach(n, df) * sqrt(v / n)

The weight of the prediction is at most d - (n - 1), where d is the degrees of freedom of the
residual mean square. In a table of only two points, this is 0, so the test is the paired t-test
with another factor: `reach`, the boundary of sequential.py, replaces the quantile of t.

If the points of a contrast do not all share their seeds, they are divided into groups that do. The
groups are compared by Welch's t-test, with the same boundary. Each group has its own values d_s and
its own variance v. Here r2 is the pooled variance within points times the square of the sum of
|w_p| over the group. It adds no degrees of freedom.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sweeper.results.statistics.sequential import FIRST, Floats, Intervals, reach

Table = Floats
"""Values of shape (points, seeds), larger being better; nan where a point lacks a seed."""

WORTH = 4.0  # the weight of a predicted variance, in degrees of freedom
# A point counts as diverged if its variance is more than this many times the median over points.
# Its variance is not pooled.
DIVERGED = 1000.0
LARGEST = 1e200  # a larger variance means that a run diverged
ROUNDING = 1e-9  # the relative rounding error of values
CONFIDENCE = 0.95  # figures show 95 % intervals


class Variance(NamedTuple):
    """A variance between seeds, and its degrees of freedom, which are 0 if it is unknown."""

    value: float
    df: float

    @property
    def known(self) -> bool:
        """True if there is at least one degree of freedom and no seed diverged (see LARGEST)."""
        return self.df >= 1 and self.value < LARGEST

    def times(self, factor: float) -> "Variance":
        """Return this variance, multiplied by a factor."""
        return Variance(self.value * factor, self.df)

    def moderated(self, own: float, seeds: int) -> "Variance":
        """Return a sample variance, shrunk towards this variance, which is its prediction.

        Args:
            own: the sample variance.
            seeds: the size of the sample.
        """
        own_df = seeds - 1
        worth = min(WORTH, max(self.df - own_df, 0.0))
        if own_df + worth == 0:
            return Variance(math.inf, 0.0)
        if own > self.value:
            return Variance(own, own_df + worth * self.value / own)
        shrunk = (own_df * own + worth * self.value) / (own_df + worth)
        return Variance(shrunk, own_df + worth)


class Estimate(NamedTuple):
    """The estimate of a contrast.

    Attributes:
        value: the mean over seeds.
        error: the squared standard error. It is infinite if unknown, and 0 if the contrast has the
            same value for every seed, up to rounding.
        df: the degrees of freedom of the error.
        seeds: the number of seeds.
    """

    value: float
    error: float
    df: float
    seeds: int


def table_of(groups: Sequence[Mapping[int, float]]) -> Table:
    """Return a table with a row for each point and a column for each seed, in ascending order.

    `groups` has a mapping from seeds to values for each point. Missing values become nan.
    """
    seeds = sorted({seed for group in groups for seed in group})
    table = np.full((len(groups), max(len(seeds), 1)), np.nan)
    for row, group in zip(table, groups, strict=True):
        row[np.searchsorted(seeds, [*group])] = [*group.values()]
    return table


def first_seeds(table: Table, counts: npt.ArrayLike) -> Table:
    """Return the table with only the first values of each point. The others become nan.

    `counts` is the number of values to keep for each point, of shape (points,).
    """
    rank = (~np.isnan(table)).cumsum(axis=1)
    return np.where(rank <= np.asarray(counts)[:, None], table, np.nan)


def within_points(table: Table) -> Variance:
    """Return the variance between the seeds of a point, pooled over all `regular` points."""
    pooled = regular(table)
    df = int((_counts(pooled) - 1).sum())
    return _variance(_squares(pooled).sum(), df)


def residual(table: Table) -> Variance:
    """Return the residual mean square after the effects of points and of seeds are removed.

    Only `regular` points are used.
    """
    pooled = regular(table)
    points, seeds = np.nonzero(~np.isnan(pooled))
    values = pooled[points, seeds]
    # The design matrix: for each value, one indicator of its point and one of its seed.
    effects = np.hstack([np.eye(len(pooled))[points], np.eye(table.shape[1])[seeds]])
    fitted, _, rank, _ = np.linalg.lstsq(effects.T @ effects, effects.T @ values)
    squares = ((values - effects @ fitted) ** 2).sum()
    return _variance(squares, len(values) - int(rank))


def moderated(table: Table) -> list[Variance]:
    """Return the variance of each point, shrunk towards the pooled variance."""
    within, own = within_points(table), variances(table).tolist()
    counts = _counts(table).tolist()
    return [
        within.moderated(one, seeds) for one, seeds in zip(own, counts, strict=True)
    ]


def variances(table: Table) -> Floats:
    """Return the sample variance of each point over seeds. It is infinite if squares overflow."""
    found: Floats = _squares(table) / np.maximum(_counts(table) - 1, 1)
    return found


def student_interval(
    mean: float, seeds: int, variance: Variance
) -> tuple[float, float]:
    """Return the ends of Student's 95 % t interval of a mean over seeds.

    It is valid for a single analysis, so it is used for figures and for tuning. Claims are analysed
    repeatedly, so they use the intervals of sequential.py.

    Args:
        mean: the mean.
        seeds: the number of seeds.
        variance: the variance between seeds, not that of the mean.
    """
    from scipy.special import stdtrit

    t = float(stdtrit(variance.df, 0.5 + CONFIDENCE / 2))
    half_width = t * math.sqrt(variance.value) / math.sqrt(seeds)
    return mean - half_width, mean + half_width


def _counts(table: Table) -> npt.NDArray[np.int_]:
    """Return the number of values of each point."""
    counts: npt.NDArray[np.int_] = np.count_nonzero(~np.isnan(table), axis=1)
    return counts


def _squares(table: Table) -> Floats:
    """Return each point's sum of squared deviations from its mean."""
    counts = _counts(table)
    means = np.nansum(table, axis=1) / np.maximum(counts, 1)
    with np.errstate(over="ignore"):
        found: Floats = np.nansum((table - means[:, None]) ** 2, axis=1)
    return found


def regular(table: Table) -> Table:
    """Return the rows of the points that have at least two seeds and did not diverge.

    DIVERGED defines divergence.
    """
    several = table[_counts(table) > 1]
    own = variances(several)
    usual = float(np.median(own)) if len(own) else 0.0
    found: Table = several[own / DIVERGED <= usual]
    return found


def _variance(squares: float, df: int) -> Variance:
    return Variance(float(squares) / df, df) if df else Variance(0.0, 0)


def estimates(table: Table, weights: Floats) -> list[Estimate]:
    """Return the estimate of each contrast. `weights` has the shape (contrasts, points)."""
    shared, within = residual(table), within_points(table)
    # The value of a diverged seed can be so large that its square overflows.
    with np.errstate(over="ignore"):
        return [_estimate(table, own, shared, within) for own in weights]


def _estimate(
    table: Table, weights: Floats, shared: Variance, within: Variance
) -> Estimate:
    used = np.flatnonzero(weights)
    rows, weights = table[used], weights[used]
    groups = _seed_groups(~np.isnan(rows))
    complete = [rows[group][:, ~np.isnan(rows[group]).any(axis=0)] for group in groups]
    series = [weights[group] @ own for group, own in zip(groups, complete, strict=True)]
    seeds = min(map(len, series))
    if seeds < min(len(groups), 2):
        means = np.nansum(rows, axis=1) / np.maximum(_counts(rows), 1)
        return Estimate(float(weights @ means), math.inf, 0.0, seeds)

    predicted = [shared.times(float(weights @ weights))]
    if len(groups) > 1:
        sums = [float(np.abs(weights[group]).sum()) for group in groups]
        predicted = [within.times(total**2) for total in sums]
    found = [
        prediction.moderated(_sample_variance(own), len(own))
        for prediction, own in zip(predicted, series, strict=True)
    ]
    value = float(sum(own.mean() for own in series))
    counts = np.array([len(own) for own in series])
    errors = np.array([one.value for one in found]) / counts
    error = float(errors.sum())
    if math.sqrt(error) <= ROUNDING * float(np.abs(np.nan_to_num(rows)).max()):
        return Estimate(value, 0.0, 0.0, seeds)
    if len(groups) == 1:
        return Estimate(value, error, found[0].df, seeds)
    # The degrees of freedom of a sum of variances, by Satterthwaite (Biometrics Bulletin 2, 1946).
    df = 1 / ((errors / error) ** 2 / (counts - 1)).sum()
    return Estimate(value, error, float(df), seeds)


def _sample_variance(series: Floats) -> float:
    return float(series.var(ddof=1)) if len(series) > 1 else 0.0


def share_seeds(one: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_]) -> bool:
    """Return whether two points share enough seeds to be paired.

    They must share at least FIRST seeds, or all the seeds that one of them has.

    Args:
        one, other: a boolean mask of each point, of shape (seeds,): whether it has that seed.
    """
    return bool((one & other).sum() >= min(FIRST, one.sum(), other.sum()))


def _seed_groups(measured: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Group points that share seeds. Return the indices of the points in each group.

    `measured` is a boolean mask of shape (points, seeds): whether a point has that seed.
    """
    groups: list[list[int]] = []
    for point, own in enumerate(measured):
        group = [point]
        for known in groups:
            if share_seeds(np.logical_and.reduce(measured[known]), own):
                group += known
        groups = [*(known for known in groups if known[0] not in group), sorted(group)]
    return groups


def intervals(found: Sequence[Estimate], levels: Floats) -> Intervals:
    """Return the intervals of these estimates.

    The ends are infinite below FIRST seeds, and if the standard error is 0 or unknown.

    Args:
        found: the estimates.
        levels: the one-sided significance levels of the low and the high end of each interval, of
            shape (contrasts, 2).
    """
    values = np.array([one.value for one in found])
    lows, highs = np.transpose(
        [
            [_half_width(one, level) for level in own]
            for one, own in zip(found, levels.tolist(), strict=True)
        ]
    )
    return Intervals(values, values - lows, values + highs)


def _half_width(one: Estimate, level: float) -> float:
    known = 0 < one.error < math.inf and one.seeds >= FIRST
    return reach(one.seeds, one.df, level) * math.sqrt(one.error) if known else math.inf
