"""The combination of contrasts: their shares of a claim's error, and the claim's decision."""

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from sweeper.results.design import All, AnyOf, Contrast, Statement
from sweeper.results.statistics.sequential import Floats, Intervals
from sweeper.results.verdict import Decision

Whether = Callable[[Iterable[bool]], bool]


def levels(statement: Statement, low: float, high: float) -> Floats:
    """Return the one-sided levels of the low and high end of each contrast's interval.

    The result has the shape (contrasts, 2). A chance of error is divided only among contrasts that
    can each cause the error alone.

    Args:
        statement: the combined contrasts.
        low: the chance that a false statement is supported.
        high: the chance that a true statement is not supported.
    """
    if isinstance(statement, Contrast):
        return np.array([[low, high]])
    count = len(statement.parts)
    if isinstance(statement, All):
        high /= count
    else:
        low /= count
    return np.concatenate([levels(part, low, high) for part in statement.parts])


def decide(
    statement: Statement, found: Intervals, margin: float = math.nan
) -> Decision:
    """Return the decision that these intervals allow.

    Args:
        statement: the combined contrasts.
        found: an interval for each contrast, as arrays of the shape (contrasts,).
        margin: the largest difference that does not matter; nan if there is none.
    """
    supported = _holds(statement, iter(found.lows > 0), all, any)
    not_supported = _holds(statement, iter(found.highs < 0), any, all)
    if supported and not not_supported:
        return Decision.SUPPORTED
    if not_supported and not supported:
        return Decision.NOT_SUPPORTED
    within = (found.lows > -margin) & (found.highs < margin)
    if within.all() and not supported:
        return Decision.NO_DIFFERENCE
    return Decision.UNDECIDED


def _holds(
    statement: Statement, contrasts: Iterator[bool], every: Whether, some: Whether
) -> bool:
    """Return whether a statement holds.

    Args:
        statement: the statement.
        contrasts: for each contrast of the statement, from left to right, whether it holds.
        every: combines the answers of the parts of `All`.
        some: combines the answers of the parts of `AnyOf`.
    """
    if isinstance(statement, Contrast):
        return next(contrasts)
    parts = [_holds(part, contrasts, every, some) for part in statement.parts]
    return some(parts) if isinstance(statement, AnyOf) else every(parts)
