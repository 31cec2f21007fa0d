"""Means of measurements that were repeated over seeds, and the intervals that figures show.

The interval of a mean is Student's t and holds for one analysis; claims are judged by the intervals
of sequential.py. The spread between seeds is that of blocks.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95
# A larger spread means divergence: it is not a spread, and its squares may overflow.
BEYOND = 1e100


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


def interval(mean: float, n: int, spread: Spread | None) -> tuple[float, float] | None:
    """Return Student's t interval of the mean of `n` seeds; None where the spread is unknown."""
    if spread is None:
        return None
    from scipy.special import stdtrit

    reach = float(stdtrit(spread.df, 0.5 + LEVEL / 2)) * spread.sd / math.sqrt(n)
    return mean - reach, mean + reach
