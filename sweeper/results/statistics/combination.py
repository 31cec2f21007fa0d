"""How the answer to a claim follows from the intervals of its contrasts.

A claim holds that a contrast is above 0, or `same`: that it is no larger than a margin; or that
every one of several such claims holds, or that some do. All answers are read from the same
intervals, so a wrong one needs an interval that missed. `levels` shares the claim's chance of error
among the ends: it is divided only where any of several misses would do. Every claim of several is
wrongly supported only if one that is false is; it is wrongly not supported if any of them is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from sweeper.results.statistics.contrasts import Intervals
from sweeper.results.statistics.spreads import Floats
from sweeper.store.plans import ERROR

Part = TypeVar("Part")


@dataclass(frozen=True)
class Above:
    """The claim that a contrast, by its place among the contrasts, is above 0."""

    place: int


@dataclass(frozen=True)
class Same:
    """The claim that a contrast is within its margin, to either side."""

    place: int


@dataclass(frozen=True)
class All(Generic[Part]):
    """The claim that all of these hold."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class AnyOf(Generic[Part]):
    """The claim that at least one of these holds."""

    parts: tuple[Part, ...]


Combination: TypeAlias = "Above | Same | All[Combination] | AnyOf[Combination]"


class Answers(NamedTuple):
    """What the intervals say of a claim, of each experiment (...): at most one holds.

    All three are False where the claim is undecided.
    """

    supported: Any
    not_supported: Any
    no_difference: Any


def levels(claim: Combination, contrasts: int, claims: int = 1, error: float = ERROR) -> Floats:
    """The one-sided levels of the low and high ends of each contrast: (contrasts, 2).

    `claims` is how many the experiment makes. Ends of contrasts that the claim does not use are 1.
    """
    found = np.ones((contrasts, 2))

    def share(claim: Combination, low: float, high: float) -> None:
        match claim:
            case Above(place):
                found[place] = np.minimum(found[place], (low, high))
            case Same(place):
                found[place] = np.minimum(found[place], min(low, high))
            case All(parts):
                for part in parts:
                    share(part, low, high / len(parts))
            case AnyOf(parts):
                for part in parts:
                    share(part, low / len(parts), high)

    share(claim, error / claims / 2, error / claims / 2)
    return found


def places(claim: Combination) -> list[int]:
    """The places of the contrasts that a claim uses, each once."""
    if isinstance(claim, Above | Same):
        return [claim.place]
    return sorted({place for part in claim.parts for place in places(part)})


def answers(claim: Combination, found: Intervals, margins: Floats) -> Answers:
    """The answers to a claim; `margins` (contrasts,), nan where there is none."""
    low, high = found.lows, found.highs
    with np.errstate(invalid="ignore"):
        within = (low > -margins) & (high < margins)
        beyond = (low > margins) | (high < -margins)
    supported = combined(claim, low > 0, within, np.logical_and, np.logical_or)
    not_supported = combined(claim, high < 0, beyond, np.logical_or, np.logical_and)
    either = supported | not_supported
    return Answers(
        supported & ~not_supported,
        not_supported & ~supported,
        within[..., places(claim)].all(axis=-1) & ~either,
    )


def combined(
    claim: Combination, above: Any, same: Any, every: Callable[..., Any], some: Callable[..., Any]
) -> Any:
    """What holds of a claim, from what holds of each contrast (..., contrasts)."""
    if isinstance(claim, Above):
        return above[..., claim.place]
    if isinstance(claim, Same):
        return same[..., claim.place]
    parts = [combined(part, above, same, every, some) for part in claim.parts]
    return reduce(every if isinstance(claim, All) else some, parts)
