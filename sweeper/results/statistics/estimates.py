"""Means, intervals and comparisons of measurements that were repeated over seeds.

Pure functions of numbers. The usual number of seeds is three, and that decides the method.
Resampling three values gives intervals that call themselves 95 % and hold the truth three times in
four; so the interval of a mean or a difference is Student's t, with the spread between seeds pooled
over all settings of an experiment (one-way analysis of variance). A setting whose seeds differ far
more than the others' keeps its own spread. The bootstrap is for statistics of many settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVEL = 0.95
RESAMPLES = 2000
# How unlikely a setting's own spread must be, if all are equal, before it stands for itself.
OUTLYING_SPREAD = 0.001


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation between seeds, and the degrees of freedom it was estimated with."""

    sd: float
    df: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean of `n` seeds. `spread` is None where nothing is known of the spread."""

    mean: float
    n: int
    spread: Spread | None


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference and its interval; None for both ends where the spread is unknown."""

    value: float
    low: float | None
    high: float | None

    def times(self, factor: float) -> Difference:
        """The difference in other units, or with the other sign."""
        if self.low is None or self.high is None:
            return Difference(factor * self.value, None, None)
        low, high = sorted((factor * self.low, factor * self.high))
        return Difference(factor * self.value, low, high)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; ValueError of nothing."""
    if not values:
        raise ValueError("the mean of no values")
    return math.fsum(values) / len(values)


def sd(values: Sequence[float]) -> float | None:
    """The sample standard deviation (n - 1); None of fewer than two values."""
    if len(values) < 2:
        return None
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def pooled(groups: Iterable[Sequence[float]]) -> Spread | None:
    """The spread within groups (one-way analysis of variance); None if no group has two values."""
    squares, df = [], 0
    for values in groups:
        own = sd(values)
        if own is not None:
            squares.append(own**2 * (len(values) - 1))
            df += len(values) - 1
    return Spread(math.sqrt(math.fsum(squares) / df), df) if df else None


def estimate(values: Sequence[float], spread: Spread | None) -> Estimate:
    """The mean of `values`, with their own spread where it is out of line, else with `spread`.

    `spread` is pooled over groups of which `values` are one.
    """
    own = sd(values)
    if own is not None and spread is not None:
        df = len(values) - 1
        others = spread.sd**2 * spread.df - own**2 * df
        rest = spread.df - df
        # own^2 / (others / rest) follows an F distribution where all spreads are equal.
        if rest > 0 and own**2 * rest > others * _f_quantile(1 - OUTLYING_SPREAD, df, rest):
            spread = Spread(own, df)
    return Estimate(mean(values), len(values), spread)


def interval(given: Estimate, level: float = LEVEL) -> tuple[float, float] | None:
    """Student's t interval of the mean; None where the spread is unknown."""
    if given.spread is None:
        return None
    reach = _t_quantile(level, given.spread.df) * given.spread.sd / math.sqrt(given.n)
    return given.mean - reach, given.mean + reach


def difference(
    a: Estimate, b: Estimate, *, comparisons: int = 1, level: float = LEVEL
) -> Difference:
    """`a - b` of independent means; see `contrast`."""
    return contrast([(1, a), (-1, b)], comparisons=comparisons, level=level)


def contrast(
    terms: Sequence[tuple[float, Estimate]], *, comparisons: int = 1, level: float = LEVEL
) -> Difference:
    """The sum of weight * mean over `terms` (weight, estimate) of independent means.

    The interval uses the smallest of their degrees of freedom, which never makes it too narrow,
    and holds for `comparisons` such sums together (Bonferroni): whoever picks the largest of
    several differences has to ask all of them for more.
    """
    value = math.fsum(weight * known.mean for weight, known in terms)
    spreads = [known.spread for _, known in terms if known.spread is not None]
    if len(spreads) < len(terms):
        return Difference(value, None, None)
    errors = (
        (weight * spread.sd) ** 2 / known.n
        for (weight, known), spread in zip(terms, spreads, strict=True)
    )
    df = min(spread.df for spread in spreads)
    reach = _t_quantile(1 - (1 - level) / comparisons, df) * math.sqrt(math.fsum(errors))
    return Difference(value, value - reach, value + reach)


def paired(
    *pairs: tuple[Mapping[int, float], Mapping[int, float]], level: float = LEVEL
) -> Difference | None:
    """`a - b` seed by seed over the seeds both have, and the mean of that over the pairs (a, b).

    The spread of the differences is pooled over the pairs. None if no pair shares a seed.
    """
    groups = [values for a, b in pairs if (values := seed_by_seed(a, b))]
    if not groups:
        return None
    value = mean([mean(values) for values in groups])
    spread = pooled(groups)
    if spread is None:
        return Difference(value, None, None)
    error = spread.sd * math.sqrt(math.fsum(1 / len(values) for values in groups)) / len(groups)
    reach = _t_quantile(level, spread.df) * error
    return Difference(value, value - reach, value + reach)


def seed_by_seed(a: Mapping[int, float], b: Mapping[int, float]) -> list[float]:
    """`a - b` of each seed that both have, in their order."""
    return [a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())]


def bootstrap(
    groups: Sequence[Sequence[float]],
    statistic: Callable[..., Floats],
    *,
    level: float = LEVEL,
    seed: int = 0,
) -> tuple[float, float] | None:
    """The percentile interval of `statistic` when the seeds of each group are drawn again.

    `statistic` takes one (resamples, group size) array a group and returns (resamples,) values.
    The same numbers give the same interval always. None if no group has two seeds.
    """
    if all(len(values) < 2 for values in groups):
        return None
    draw = np.random.default_rng(seed)
    again = []
    for group in groups:
        values = np.asarray(group, dtype=np.float64)
        again.append(values[draw.integers(0, len(values), (RESAMPLES, len(values)))])
    low, high = np.percentile(statistic(*again), [50 * (1 - level), 50 * (1 + level)])
    return float(low), float(high)


def monotonicity(groups: Sequence[Sequence[float]]) -> Difference:
    """How steadily values rise from group to group (1), or fall (-1), with a bootstrap interval.

    It is Somers' D of the values on the order of the groups: of all pairs of values from different
    groups, the share that rises less the share that falls.
    """
    sizes = [len(values) for values in groups]
    values = np.concatenate([np.asarray(group, dtype=np.float64) for group in groups])
    group = np.repeat(np.arange(len(groups)), sizes)
    # Whole numbers far below 2^24, which float32 adds without an error.
    rises = np.sign(values - values[:, None]).astype(np.float32)
    rises[group <= group[:, None]] = 0
    pairs = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) / 2

    def drawn_again(*places: Floats) -> Floats:
        # Values drawn again are the old ones, each so many times: their pairs are known already.
        drawn = np.concatenate(places, axis=-1).astype(np.intp)
        drawn += len(values) * np.arange(RESAMPLES)[:, None]
        times = np.bincount(drawn.ravel(), minlength=RESAMPLES * len(values))
        times = times.reshape(RESAMPLES, -1).astype(np.float32)
        steps: Floats = (times @ rises * times).sum(axis=-1, dtype=np.float64)
        return steps / pairs

    places = np.split(np.arange(len(values)), np.flatnonzero(np.diff(group)) + 1)
    ends = bootstrap([list(map(float, own)) for own in places], drawn_again)
    value = float(rises.sum(dtype=np.float64) / pairs)
    return Difference(value, *(ends or (None, None)))


def interpolate(curve: Iterable[tuple[float, float]], at: float) -> float | None:
    """The value of a curve at size `at`, straight in log size; None outside the sizes it has.

    `curve` holds (size > 0, value); of several values at one size their mean counts.
    """
    by_size: dict[float, list[float]] = {}
    for size, value in curve:
        by_size.setdefault(size, []).append(value)
    points = [(size, mean(values)) for size, values in sorted(by_size.items())]
    if len(points) == 1 and points[0][0] == at:
        return points[0][1]
    for (left, value_left), (right, value_right) in pairwise(points):
        if left <= at <= right:
            share = math.log(at / left) / math.log(right / left)
            return value_left + share * (value_right - value_left)
    return None


@cache
def _t_quantile(level: float, df: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, 0.5 + level / 2))


@cache
def _f_quantile(level: float, df: int, df_of: int) -> float:
    from scipy.special import fdtri

    return float(fdtri(df, df_of, level))
