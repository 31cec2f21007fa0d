"""The block rule: seeds are blocks, and a contrast of points is one number per seed.

All points of a claim share their seeds. A contrast with weights w_p of points p has one value for
each of n seeds s: d_s, the sum over p of w_p * values[p, s]. The variance v of these values is
their sample variance s2, shrunk towards a prediction r2 from the whole table of points and seeds.
r2 is the sum of w_p^2 times the residual mean square, after the effects of points and of seeds are
removed. The prediction counts as four seeds, or as fewer if s2 is larger than r2:

    v = max(s2, ((n - 1) * s2 + 4 * r2) / (n - 1 + 4))
    df = n - 1 + 4 * min(1, r2 / s2)
    interval: mean(d) +- reach(n, df) * sqrt(v / n)

The prediction adds at most the degrees of freedom that the table has beyond the contrast's own. So
two points without others are compared by the paired t-test. `reach` is the boundary of
sequential.py, instead of a quantile of t.

Arms with different seeds are compared by Welch's t-test with the same boundary. Each arm has its
own values and variance v. There, r2 is the variance within points times the square of the sum of
|w_p|, and adds no degrees of freedom.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sweeper.results.statistics.sequential import FIRST, Floats, Intervals, reach

Table = Floats
"""Values of shape (points, seeds), larger being better; nan for a seed that is not measured."""

WORTH = 4.0  # the number of seeds that a predicted variance counts as
# A point with more than this many times the median variance diverged. It is not pooled.
DIVERGED = 1000.0
LARGEST = 1e200  # a larger variance means that a run diverged
ROUNDING = 1e-9  # the relative rounding error of values
CONFIDENCE = 0.95  # figures show 95 % intervals


class Variance(NamedTuple):
    """A variance between seeds and its degrees of freedom, which are 0 if it is unknown."""

    value: float
    df: float

    @property
    def known(self) -> bool:
        """True with at least one degree of freedom, unless a seed diverged."""
        return self.df >= 1 and self.value < LARGEST

    def times(self, factor: float) -> "Variance":
        """Return this variance, multiplied by a factor."""
        return Variance(self.value * factor, self.df)

    def moderated(self, own: float, seeds: int) -> "Variance":
        """Return the variance `own` of this many seeds, shrunk towards this variance."""
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
        error: the squared standard error. It is infinite if unknown, and 0 if seeds differ only by
            rounding.
        df: the degrees of freedom of the error.
        seeds: the number of seeds.
    """

    value: float
    error: float
    df: float
    seeds: int


def table_of(groups: Sequence[Mapping[int, float]]) -> Table:
    """Return a table of these values, which are given by seed for each point.

    Raise ValueError if a value is not finite.
    """
    seeds = sorted({seed for group in groups for seed in group})
    if not all(np.isfinite(value) for group in groups for value in group.values()):
        raise ValueError("expected finite values, but a measurement is nan or inf")
    table = np.full((len(groups), max(len(seeds), 1)), np.nan)
    for row, group in zip(table, groups, strict=True):
        row[np.searchsorted(seeds, [*group])] = [*group.values()]
    return table


def first_seeds(table: Table, counts: npt.ArrayLike) -> Table:
    """Return the table with only the first `counts[p]` seeds of each point p."""
    place = (~np.isnan(table)).cumsum(axis=1)
    return np.where(place <= np.asarray(counts)[:, None], table, np.nan)


def within_points(table: Table) -> Variance:
    """Return the pooled variance between the seeds of a point."""
    rest = _centred(_regular(table), axis=1)
    there = ~np.isnan(rest)
    return _variance(rest, there.sum() - there.any(axis=1).sum())


def residual(table: Table) -> Variance:
    """Return the residual mean square after the effects of points and of seeds are removed."""
    regular = _regular(table)
    there = ~np.isnan(regular)
    seeds, points = there.sum(axis=0), there.sum(axis=1)
    # Estimate the effects of seeds by least squares, after the effects of points are eliminated.
    normal = np.diag(seeds.astype(float)) - there.T @ (there / points[:, None])
    effects = np.linalg.lstsq(normal, np.nansum(_centred(regular, axis=1), axis=0))[0]
    rest = _centred(regular - effects, axis=1)
    return _variance(rest, there.sum() - len(points) - (seeds > 0).sum() + 1)


def variances(table: Table) -> Floats:
    """Return the variance between the seeds of each point. It is infinite if squares overflow."""
    rest = _centred(table, axis=1)
    with np.errstate(over="ignore"):
        squares = np.nansum(rest**2, axis=1)
    found: Floats = squares / np.maximum(_counts(table) - 1, 1)
    return found


def moderated(table: Table) -> list[Variance]:
    """Return the variance of each point, shrunk towards the pooled variance."""
    counts = _counts(table).tolist()
    within, own = within_points(table), variances(table).tolist()
    return [
        within.moderated(one, seeds) for one, seeds in zip(own, counts, strict=True)
    ]


def student_interval(
    mean: float, seeds: int, variance: Variance
) -> tuple[float, float]:
    """Return Student's t interval of a mean over seeds. It holds for a single analysis.

    Figures and trials use it. Claims use the intervals of sequential.py.
    """
    from scipy.special import stdtrit

    t = float(stdtrit(variance.df, 0.5 + CONFIDENCE / 2))
    reach = t * math.sqrt(variance.value) / math.sqrt(seeds)
    return mean - reach, mean + reach


def _counts(table: Table) -> npt.NDArray[np.int_]:
    """Return the number of values of each point."""
    counts: npt.NDArray[np.int_] = np.count_nonzero(~np.isnan(table), axis=1)
    return counts


def _regular(table: Table) -> Table:
    """Return the points with at least two seeds that did not diverge (see DIVERGED)."""
    several = table[_counts(table) > 1]
    own = variances(several)
    usual = float(np.median(own)) if len(own) else 0.0
    regular: Table = several[own / DIVERGED <= usual]
    return regular


def _centred(table: Table, axis: int) -> Table:
    counts = (~np.isnan(table)).sum(axis=axis, keepdims=True)
    centred: Table = table - np.nansum(table, axis=axis, keepdims=True) / np.maximum(
        counts, 1
    )
    return centred


def _variance(rest: Table, df: int) -> Variance:
    known = rest.size > 0 and df > 0
    return Variance(float(np.nansum(rest**2)) / df, df) if known else Variance(0.0, 0)


def estimates(table: Table, weights: Floats) -> list[Estimate]:
    """Return the estimate of each contrast. `weights` has the shape (contrasts, points)."""
    shared = residual(table)
    found = []
    for own in weights:
        # The squares of a diverged seed can overflow.
        with np.errstate(over="ignore"):
            one = _estimate(table, own, shared)
        size = np.abs(np.nan_to_num(table[own != 0])).max(initial=0.0)
        same = math.sqrt(one.error) <= ROUNDING * float(size)
        found.append(one._replace(error=0.0) if same else one)
    return found


def _estimate(table: Table, weights: Floats, shared: Variance) -> Estimate:
    used = np.flatnonzero(weights)
    rows, weights = table[used], weights[used]
    arms = _arms(~np.isnan(rows))
    complete = [rows[arm][:, ~np.isnan(rows[arm]).any(axis=0)] for arm in arms]
    series = [weights[arm] @ own for arm, own in zip(arms, complete, strict=True)]
    if min(map(len, series)) == 0:
        counts = np.maximum(_counts(rows), 1)
        means = np.nansum(rows, axis=1) / counts
        return Estimate(float(weights @ means), math.inf, 0.0, 0)
    if len(arms) == 1:
        return _paired(series[0], shared.times(float(weights @ weights)))
    sums = [float(np.abs(weights[arm]).sum()) for arm in arms]
    within = within_points(table)
    return _unpaired(series, [within.times(own**2) for own in sums])


def _paired(series: Floats, predicted: Variance) -> Estimate:
    """Return the estimate of a contrast from its value for each seed."""
    seeds = len(series)
    variance, df = predicted.moderated(_sample_variance(series), seeds)
    return Estimate(float(series.mean()), variance / seeds, df, seeds)


def _unpaired(series: Sequence[Floats], predicted: Sequence[Variance]) -> Estimate:
    """Return the estimate of a contrast between arms with different seeds, by Welch's t-test."""
    value = float(sum(own.mean() for own in series))
    seeds = min(map(len, series))
    if seeds == 1:
        return Estimate(value, math.inf, 0.0, seeds)

    errors = []
    for own, prediction in zip(series, predicted, strict=True):
        variance = prediction.moderated(_sample_variance(own), len(own)).value
        errors.append(variance / len(own))
    error = sum(errors)
    # Satterthwaite (Biometrics Bulletin 2, 1946) gives the degrees of freedom of a sum.
    lost = sum(e * e / (len(own) - 1) for e, own in zip(errors, series, strict=True))
    return Estimate(value, error, error * error / lost if lost else seeds - 1.0, seeds)


def _sample_variance(series: Floats) -> float:
    return float(series.var(ddof=1)) if len(series) > 1 else 0.0


def share_seeds(one: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_]) -> bool:
    """Return whether two points share enough seeds to be paired.

    They share at least FIRST seeds, or all seeds of one point.

    Args:
        one, other: whether each point was measured with each seed, of shape (seeds,).
    """
    return bool((one & other).sum() >= min(FIRST, one.sum(), other.sum()))


def _arms(there: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Group points that share seeds, and return the indices of each group."""
    arms: list[list[int]] = []
    for point, own in enumerate(there):
        arm = [point]
        for known in arms:
            if share_seeds(np.logical_and.reduce(there[known]), own):
                arm += known
        arms = [*(known for known in arms if known[0] not in arm), sorted(arm)]
    return arms


def intervals(found: Sequence[Estimate], levels: Floats) -> Intervals:
    """Return the intervals of these estimates. Their ends are infinite below FIRST seeds.

    `levels` holds the one-sided levels of the low and high ends, of shape (contrasts, 2).
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
