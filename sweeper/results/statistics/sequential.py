"""Confidence intervals that stay valid however often the data are analysed.

A boundary z(n) is a function of the number of seeds alone, such that a mean of n independent normal
values, in units of its standard error, ever exceeds z(n) on one side with a chance of at most
`level`, over any number of interim analyses from `FIRST` seeds on. The boundary does not depend on
which analyses were made, so another analysis costs nothing and stopping early loses nothing.

Up to `DESIGNED` seeds z(n) = c * (DESIGNED / n) ** STEEPNESS: the family of Wang and Tsiatis
(Biometrics 43, 1987) between the shapes of Pocock and O'Brien and Fleming, near the former; c is
solved for by the recursion of Armitage, McPherson and Rowe (JRSS A 132, 1969), with an analysis
after every seed. The share `LATER` of the level is reserved for more seeds: half of it for 30 to
60, half of the rest for 60 to 120, and so on; z is constant within each range and large enough even
for continuous monitoring (Siegmund, Sequential Analysis, 1985, section 4.5).

With a spread that is estimated, t takes the place of z at the same tail probability (Jennison and
Turnbull, Group Sequential Methods, 2000, section 11.3).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sweeper.results.statistics.spreads import Errors, Sample, errors, moderated
from sweeper.store.plans import ERROR

Floats = npt.NDArray[np.float64]

FIRST = 3
DESIGNED = 30
STEEPNESS = 0.05
LATER = 0.3  # also for the approximation by t, where points are skewed (docs/decisions.md)
_NODES_PER_SD = 3


def bound(n: npt.ArrayLike, level: float) -> Floats:
    """Return z(n) for any number of seeds from FIRST on; infinite below; `level` is one-sided.

    Raises:
        ValueError: a level that is not between 0 and 1/4.
    """
    if not 0 < level < 0.25:
        raise ValueError(f"no boundary of level {level}")
    seeds = np.asarray(n, dtype=np.float64)
    early = _constant(level) * (DESIGNED / np.maximum(seeds, 1)) ** STEEPNESS
    doublings = np.ceil(np.log2(np.maximum(seeds / DESIGNED, 1))).astype(np.intp)
    late = np.array([_late(level, doubling) for doubling in range(int(doublings.max()) + 1)])
    z: Floats = np.where(doublings > 0, late[doublings], early)
    return np.where(seeds < FIRST, np.inf, z)


def reach(n: npt.ArrayLike, df: npt.ArrayLike, level: float) -> Floats:
    """Return the same in standard errors that were estimated with `df` > 0 degrees of freedom."""
    from scipy.special import ndtr, stdtrit

    with np.errstate(invalid="ignore"):
        t: Floats = -stdtrit(np.asarray(df, dtype=np.float64), ndtr(-bound(n, level)))
    return np.where(np.isfinite(t), t, np.inf)


def crossed(zs: Floats, drift: float = 0.0) -> Floats:
    """Return the chance to have left -z to z by each analysis after FIRST, FIRST + 1, ... seeds.

    `zs` (analyses,) are in standard errors; a seed adds `drift` of its own standard deviation.
    """
    places = np.arange(FIRST, FIRST + len(zs), dtype=np.float64)
    edges = zs * np.sqrt(places)
    nodes, weights = _quadrature(edges[0])
    kept = _normal(nodes - drift * FIRST, math.sqrt(FIRST)) * weights
    inside = [kept.sum()]
    for _, edge in pairwise(edges):
        following, weights = _quadrature(edge)
        step = following[:, None] - nodes[None, :] - drift
        kept = (_normal(step, 1.0) @ kept) * weights
        nodes = following
        inside.append(kept.sum())
    return 1 - np.array(inside)


def _quadrature(edge: float) -> tuple[Floats, Floats]:
    """Return nodes and weights from -edge to edge, dense for a step of standard deviation 1."""
    nodes, weights = _legendre(32 + math.ceil(edge * _NODES_PER_SD))
    return edge * nodes, edge * weights


_legendre = cache(np.polynomial.legendre.leggauss)


def _normal(x: Floats, sd: float) -> Floats:
    return np.exp(-0.5 * (x / sd) ** 2) / (sd * math.sqrt(2 * math.pi))


@cache
def _constant(level: float) -> float:
    """Return the c of this module's docstring: both sides cross with 2 * level * (1 - LATER)."""
    shape = (DESIGNED / np.arange(FIRST, DESIGNED + 1)) ** STEEPNESS
    return _solved(lambda c: float(crossed(c * shape)[-1]), 2 * level * (1 - LATER))


@cache
def _late(level: float, doubling: int) -> float:
    """Return z from DESIGNED * 2 ** (doubling - 1) to twice as many seeds (doubling from 1 on)."""
    share = 2 * level * LATER / 2 ** max(doubling, 1)

    def ever(z: float) -> float:
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return density * ((z - 1 / z) * math.log(2) + 4 / z)

    return _solved(ever, share)


def _solved(falls: Callable[[float], float], to: float) -> float:
    low, high = 1.0, 40.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if falls(middle) > to else (low, middle)
    return high


class Intervals(NamedTuple):
    """Estimates of contrasts and their ends, (..., contrasts); infinite where nothing is known."""

    values: Floats
    lows: Floats
    highs: Floats


def intervals(
    given: Sample, weights: Floats, levels: Floats, found: Errors | None = None
) -> Intervals:
    """Return the intervals of contrasts of these weights (contrasts, points).

    `levels` (contrasts, 2) are one-sided, of the low ends and the high ends. An end is infinite
    until every point of the contrast has FIRST seeds. `found` are the errors, if already computed.
    """
    known = found or errors(given, weights, moderated(given))
    values = given.means @ weights.T
    seeds = effective_seeds(weights, given.counts)

    @cache
    def half_widths(side: tuple[float, ...]) -> Floats:
        def far(df: Floats) -> Floats:
            reached = np.full(values.shape, np.inf)
            for level in set(side):
                at = (np.array(side) == level) & (seeds >= FIRST)
                if at.any():  # a boundary takes a while to solve for
                    reached[at] = reach(seeds[at], df[at], level)
            return reached

        return known.half_widths(far)

    low, high = (half_widths(tuple(side.tolist())) for side in levels.T)
    return Intervals(values, values - low, values + high)


def effective_seeds(weights: Floats, counts: Floats) -> Floats:
    """Return the equal number of seeds a point with the same error: (..., contrasts).

    0 where a point of the contrast has fewer than FIRST.
    """
    squares = weights**2
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(squares > 0, squares / counts[..., None, :], 0.0)
        seeds = squares.sum(axis=-1) / each.sum(axis=-1)
    # Equal seeds are a whole number: 3 must not be rounded to just below FIRST.
    whole = np.rint(seeds)
    seeds = np.where(np.isclose(seeds, whole, rtol=1e-9, atol=0.0), whole, seeds)
    few = ((squares > 0) & (counts[..., None, :] < FIRST)).any(axis=-1)
    return np.where(few, 0.0, seeds)


def interim_analyses(given: Sample, looks: Sequence[npt.ArrayLike] = ()) -> Sample:
    """Return the sample at each analysis, the whole one last: (analyses, ..., points, seeds).

    Before the first look every number of seeds from FIRST on counts as analysed, so that a sweep
    that goes on keeps the decisions of its first round.

    Args:
        given: the seeds of each point.
        looks: how many seeds each point had, (..., points), when an earlier round was judged.
    """
    known = [*(np.asarray(look, dtype=np.float64) for look in looks), given.counts]
    most = int(known[0].max(initial=0))
    early = [np.minimum(seeds, known[0]) for seeds in range(FIRST, most)]
    return Sample(np.stack([given.first(look).values for look in (*early, *known)]))


def closed(seen: Intervals) -> Intervals:
    """Return the intersection of the intervals of all analyses, which is the first dimension.

    The intervals hold all at once. An analysis whose interval lies apart from the intersection so
    far, which has a chance of at most the level, is left out: a decision once made stays.
    """
    low, high = seen.lows[0], seen.highs[0]
    for lows, highs in zip(seen.lows[1:], seen.highs[1:], strict=True):
        apart = np.maximum(low, lows) > np.minimum(high, highs)
        low, high = (
            np.where(apart, low, np.maximum(low, lows)),
            np.where(apart, high, np.minimum(high, highs)),
        )
    return Intervals(seen.values[-1], low, high)


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


@dataclass(frozen=True)
class Each(Generic[Part]):
    """One claim at several values of the tuned keys: a decision must hold at each of them."""

    parts: tuple[Part, ...]


Combination: TypeAlias = "Above | Same | All[Combination] | AnyOf[Combination] | Each[Combination]"


class Decisions(NamedTuple):
    """The decisions on a claim, for each experiment (...): at most one of the three is True.

    All three are False where the claim is undecided.
    """

    supported: Any
    not_supported: Any
    no_difference: Any


def levels(claim: Combination, contrasts: int, claims: int = 1, error: float = ERROR) -> Floats:
    """Return the one-sided levels of the low and high ends of each contrast: (contrasts, 2).

    `claims` is the number of claims of the experiment. Contrasts that the claim does not use get 1.
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
            case Each(parts):  # an error takes one at the best values, whichever these are
                for part in parts:
                    share(part, low, high)

    share(claim, error / claims / 2, error / claims / 2)
    return found


def at_first(claim: Combination) -> Combination:
    """Return a claim at the first values of each that it is asked at."""
    if isinstance(claim, Above | Same):
        return claim
    if isinstance(claim, Each):
        return at_first(claim.parts[0])
    return type(claim)(tuple(map(at_first, claim.parts)))


def decisions(claim: Combination, found: Intervals, margins: Floats) -> Decisions:
    """Return the decisions on a claim; `margins` (contrasts,), nan where there is none."""
    low, high = found.lows, found.highs
    with np.errstate(invalid="ignore"):
        within = (low > -margins) & (high < margins)
        beyond = (low > margins) | (high < -margins)
    supported = combined(claim, low > 0, within, np.logical_and, np.logical_or)
    not_supported = combined(claim, high < 0, beyond, np.logical_or, np.logical_and)
    all_within = combined(claim, within, within, np.logical_and, np.logical_and)
    return Decisions(
        supported & ~not_supported,
        not_supported & ~supported,
        all_within & ~(supported | not_supported),
    )


def combined(
    claim: Combination, above: Any, same: Any, every: Callable[..., Any], some: Callable[..., Any]
) -> Any:
    """Return whether a claim holds, given whether each contrast (..., contrasts) does."""
    if isinstance(claim, Above):
        return above[..., claim.place]
    if isinstance(claim, Same):
        return same[..., claim.place]
    parts = [combined(part, above, same, every, some) for part in claim.parts]
    if isinstance(claim, Each):
        return reduce(np.logical_and, parts)
    return reduce(every if isinstance(claim, All) else some, parts)
