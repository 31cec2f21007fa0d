"""Means of measurements that were repeated over seeds, and the intervals that figures show.

The interval of a mean is Student's t and holds for one analysis; claims are judged by the intervals
of sequential.py. The spread between seeds is that of spreads.py. For choices among trials it is
pooled over all settings (one-way analysis of variance), but a setting whose seeds differ far more
than the others' keeps its own.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LEVEL = 0.95
# A larger spread means divergence: it is not a spread, and its squares may overflow.
BEYOND = 1e100
# How unlikely a setting's own spread must be, if all are equal, before it stands for itself.
SUSPECT_SPREAD = 0.05


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation between seeds, and the degrees of freedom it was estimated with."""

    sd: float
    df: float


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; ValueError if there are no values."""
    if not values:
        raise ValueError("the mean of no values")
    return math.fsum(values) / len(values)


def sd(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation (n - 1), inf on overflow; None for fewer than two."""
    if len(values) < 2:
        return None
    centre = mean(values)
    squares = (
        (value - centre) * (value - centre) for value in values
    )  # ** raises where it is inf
    return math.sqrt(math.fsum(squares) / (len(values) - 1))


def pooled(groups: Iterable[Sequence[float]]) -> Spread | None:
    """Return the spread within groups (one-way ANOVA); None if no group has two values."""
    squares, df = [], 0
    for values in groups:
        own = sd(values)
        if own is not None and own < BEYOND:
            squares.append(own * own * (len(values) - 1))
            df += len(values) - 1
    return Spread(math.sqrt(math.fsum(squares) / df), df) if df else None


def spread_of(values: Sequence[float], spread: Spread | None) -> Spread | None:
    """Return the values' own spread if it is out of line, else `spread`; None if they diverge.

    `spread` is pooled over groups that include `values`.
    """
    own = sd(values)
    if own is not None and own >= BEYOND:
        return None
    if own is not None and spread is not None:
        from scipy.special import fdtri

        df = len(values) - 1
        others = spread.sd**2 * spread.df - own**2 * df
        rest = spread.df - df
        # own^2 / (others / rest) follows an F distribution where all spreads are equal.
        if rest > 0 and own**2 * rest > others * float(
            fdtri(df, rest, 1 - SUSPECT_SPREAD)
        ):
            return Spread(own, df)
    return spread


def interval(mean: float, n: int, spread: Spread | None) -> tuple[float, float] | None:
    """Return Student's t interval of the mean of `n` seeds; None where the spread is unknown."""
    if spread is None:
        return None
    from scipy.special import stdtrit

    reach = float(stdtrit(spread.df, 0.5 + LEVEL / 2)) * spread.sd / math.sqrt(n)
    return mean - reach, mean + reach
