"""Means over seeds, and the intervals that figures show.

The interval of a mean is Student's t interval, which holds for a single analysis. Claims use the
intervals of sequential.py instead. blocks.py estimates the spread between seeds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95
# A larger spread means that a run diverged. Its square may overflow.
BEYOND = 1e100


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation between seeds, and the degrees of freedom of its estimate."""

    sd: float
    df: float


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean. Raise ValueError if there are no values."""
    if not values:
        raise ValueError("the mean of no values")
    return math.fsum(values) / len(values)


def sd(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation, with n - 1; None for fewer than two values.

    It is inf on overflow.
    """
    if len(values) < 2:
        return None
    centre = mean(values)
    # On overflow, ** raises, but * returns inf.
    squares = ((value - centre) * (value - centre) for value in values)
    return math.sqrt(math.fsum(squares) / (len(values) - 1))


def interval(mean: float, n: int, spread: Spread | None) -> tuple[float, float] | None:
    """Return Student's t interval of the mean of `n` seeds; None if the spread is unknown."""
    if spread is None:
        return None
    from scipy.special import stdtrit

    reach = float(stdtrit(spread.df, 0.5 + LEVEL / 2)) * spread.sd / math.sqrt(n)
    return mean - reach, mean + reach
