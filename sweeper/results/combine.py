"""The combination of contrasts: their shares of a claim's error, and the decision they allow."""

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from sweeper.results.design import All, AnyOf, Contrast, Statement
from sweeper.results.statistics.sequential import Floats, Intervals
from sweeper.results.verdict import Decision

Whether = Callable[[Iterable[bool]], bool]


def levels(statement: Statement, low: float, high: float) -> Floats:
    """Return the one-sided levels of the ends of each contrast's interval: (contrasts, 2).

    An error is divided only where any of several contrasts could make it.

    Args:
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
    """Return the decision that intervals allow; `found` (contrasts,), and nan for no margin."""
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
    """Combine whether each contrast holds: `every` for the parts of All, `some` for AnyOf."""
    if isinstance(statement, Contrast):
        return next(contrasts)
    parts = [_holds(part, contrasts, every, some) for part in statement.parts]
    return some(parts) if isinstance(statement, AnyOf) else every(parts)
