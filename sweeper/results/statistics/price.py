"""How many seeds a claim is expected to need until it has an answer, by the boundary itself.

Nothing is drawn at random and nothing is spent: the same numbers give the same price, in a moment.
Leading dimensions are of experiments.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, reduce
from typing import Literal, NamedTuple

import numpy as np

from sweeper.results.statistics.boundary import FIRST, Floats, bound
from sweeper.results.statistics.combination import Above, All, Combination, Same
from sweeper.results.statistics.contrasts import Intervals, effective_seeds
from sweeper.results.statistics.spreads import Sample, Spreads

MOST = 10_000  # seeds a point; what would take more is priced as this

Goal = Literal["above", "below", "within", "beyond"]


class Price(NamedTuple):
    """The cheapest way to an answer: so many seeds a point, (...); MOST means no end in sight.

    `needs` (..., contrasts) are the seeds that each contrast takes on that way, 0 where it has
    nothing to add.
    """

    seeds: Floats
    needs: Floats


@dataclass(frozen=True)
class Known:
    """What is known of contrasts, each array (..., contrasts) or (contrasts,).

    Attributes:
        found: estimates and ends; before anything is known, the effects that are asked about, with
            infinite ends.
        sds: the standard deviation of each contrast if every point had one seed.
        seeds: a point, that they rest on now: as many at each would leave the same error.
        levels: of their low and high ends, (contrasts, 2).
        margins: nan where there is none.
        most: seeds a point that may be had; a contrast that has them is priced as infinite.
    """

    found: Intervals
    sds: Floats
    seeds: Floats
    levels: Floats
    margins: Floats
    most: float = MOST


def known(
    found: Intervals,
    given: Sample,
    spreads: Spreads,
    weights: Floats,
    ends: Floats,
    margins: Floats,
) -> Known:
    """What a sample tells of contrasts of these weights, judged as `found`."""
    with np.errstate(invalid="ignore"):  # 0 x inf
        squares = np.where(weights != 0, weights**2 * spreads.variances[..., None, :], 0.0)
    return Known(
        found,
        np.sqrt(squares.sum(axis=-1)),
        effective_seeds(weights, given.counts),
        ends,
        margins,
    )


def price(claim: Combination, known: Known, chance: float = 0.5) -> Price:
    """The price of the cheapest answer if each contrast is what it is estimated to be.

    `chance` is that with which so many seeds shall be enough. The claim must be undecided.
    """
    goals: tuple[Goal, ...] = ("above", "below", "within")
    return reduce(_cheaper, (_way(claim, goal, known, chance) for goal in goals))


def seeds_to_tell(distances: Floats, sds: Floats, level: float, chance: float = 0.5) -> Floats:
    """The fewest seeds a point after which values this far from estimates are likely excluded.

    MOST for a distance of 0 or less, and for all that takes more.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        wanted = np.where(distances > 0, distances / sds, -1.0)
    found = np.full(wanted.shape, float(MOST))
    if (wanted > 0).any():
        falling = _told(level, chance)
        enough = MOST + 1 - np.searchsorted(falling, np.nan_to_num(wanted, nan=-1.0), side="right")
        found = np.where(wanted > 0, np.minimum(enough, MOST), found)
    return found


@cache
def _told(level: float, chance: float) -> Floats:
    """What MOST, MOST - 1, ... FIRST seeds are likely to exclude, in standard deviations."""
    from scipy.special import ndtri

    at = np.arange(FIRST, MOST + 1, dtype=np.float64)
    reaches = (bound(at, level) + float(ndtri(chance))) / np.sqrt(at)
    return np.minimum.accumulate(reaches)[::-1]


def _way(claim: Combination, goal: Goal, known: Known, chance: float) -> Price:
    """The price of one answer: contrasts above 0 as the claim has them, or below, or within."""
    if isinstance(claim, Above):
        return _contrast(claim.place, goal, known, chance)
    if isinstance(claim, Same):
        return _contrast(claim.place, "beyond" if goal == "below" else "within", known, chance)
    together = goal == "within" or isinstance(claim, All) == (goal == "above")
    whole, *parts = [_way(part, goal, known, chance) for part in claim.parts]
    for part in parts:
        if together:
            seeds = np.maximum(whole.seeds, part.seeds)
            whole = Price(seeds, np.maximum(whole.needs, part.needs))
        else:
            whole = _cheaper(whole, part)
    return whole


def _cheaper(one: Price, other: Price) -> Price:
    less = other.seeds < one.seeds
    seeds = np.where(less, other.seeds, one.seeds)
    return Price(seeds, np.where(less[..., None], other.needs, one.needs))


def _contrast(place: int, goal: Goal, known: Known, chance: float) -> Price:
    value, low, high = (array[..., place] for array in known.found)
    margin, (below, above) = known.margins[place], known.levels[place]
    reached, distance, level = {
        "above": (low > 0, value, below),
        "below": (high < 0, -value, above),
        "within": ((low > -margin) & (high < margin), margin - abs(value), min(below, above)),
        "beyond": ((low > margin) | (high < -margin), abs(value) - margin, min(below, above)),
    }[goal]
    both = (1 + chance) / 2  # both ends must be within
    likely = both if goal == "within" else chance
    seeds = seeds_to_tell(distance, known.sds[..., place], float(level), likely)
    next_seed = np.floor(known.seeds[..., place] + 1e-6) + 1  # those that are there were too few
    seeds = np.where(next_seed > known.most, np.inf, np.maximum(seeds, next_seed))
    seeds = np.where(reached, 0.0, seeds)
    needs = np.zeros(np.broadcast_shapes(known.found.values.shape))
    needs[..., place] = seeds
    return Price(seeds, needs)
