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
    """`a - b` of independent means.

    The interval uses the smaller of the two degrees of freedom, which never makes it too narrow,
    and holds for `comparisons` such differences together (Bonferroni): whoever picks the largest
    of several differences has to ask all of them for more.
    """
    value = a.mean - b.mean
    if a.spread is None or b.spread is None:
        return Difference(value, None, None)
    error = math.sqrt(a.spread.sd**2 / a.n + b.spread.sd**2 / b.n)
    df = min(a.spread.df, b.spread.df)
    reach = _t_quantile(1 - (1 - level) / comparisons, df) * error
    return Difference(value, value - reach, value + reach)


def paired(
    a: Mapping[int, float], b: Mapping[int, float], level: float = LEVEL
) -> Difference | None:
    """`a - b` seed by seed, over the seeds both have; None if they share none."""
    differences = [a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())]
    if not differences:
        return None
    own = sd(differences)
    known = None if own is None else Spread(own, len(differences) - 1)
    ends = interval(Estimate(mean(differences), len(differences), known), level)
    return Difference(mean(differences), *(ends or (None, None)))


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
