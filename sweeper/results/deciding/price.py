"""How many seeds a claim is expected to need until it has an answer, by the boundary itself.

Nothing is drawn at random and nothing is spent: the same numbers give the same price, in a moment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sweeper.results.deciding.boundary import FIRST, bound, crossed
from sweeper.results.deciding.combination import Above, Combination, Every, Same
from sweeper.results.deciding.contrasts import Intervals
from sweeper.results.deciding.spreads import Floats

GOALS = ("above", "below", "within")
MOST = 10_000  # seeds; what would take more has no price


@dataclass(frozen=True)
class Price:
    """The cheapest way to an answer: so many seeds a point, infinite if there is none.

    `needs` are the seeds by the place of each contrast that has still to be narrowed for it.
    """

    seeds: float
    needs: dict[int, float] = field(default_factory=dict)


class Expected(NamedTuple):
    """Of a contrast that is looked at after every seed: mean seeds a point, share decided."""

    seeds: float
    decided: float


def price(
    claim: Combination,
    found: Intervals,
    sds: Floats,
    seeds: Floats,
    ends: Floats,
    margins: Floats,
    chance: float = 0.5,
) -> Price:
    """The price of the cheapest answer if each contrast is what it is estimated to be.

    Args:
        found: estimates and ends of the contrasts (contrasts,); before anything is known, the
            effects that are asked about, with infinite ends.
        sds: (contrasts,), standard deviation of each if every point had one seed.
        seeds: (contrasts,), the seeds a point that they rest on now (`effective_seeds`), which were
            not enough.
        ends, margins: as `intervals` and `answers` take them.
        chance: with which that many seeds shall be enough.
    """
    ways = [_Way(goal, found, sds, seeds, ends, margins, chance) for goal in GOALS]
    return min((way.price(claim) for way in ways), key=lambda price: price.seeds)


def expected(effect: float, sd: float, level: float, most: int) -> Expected:
    """The seeds that a contrast of this true size takes to be told from 0, looked at up to `most`.

    Computed, not simulated, for a spread that is known; `level` is one-sided, `most` at least FIRST.
    """
    looks = np.arange(FIRST, most + 1)
    decided = crossed(bound(looks, level), effect / sd)
    return Expected(FIRST + float((1 - decided[:-1]).sum()), float(decided[-1]))


def seeds_to_tell(distance: float, sd: float, level: float, chance: float = 0.5) -> float:
    """The fewest seeds a point after which a value so far from an estimate is likely excluded."""
    if not (distance > 0 and math.isfinite(sd)):
        return math.inf
    at = np.arange(FIRST, MOST + 1)
    reaches = (bound(at, level) + _quantile(chance)) * sd / np.sqrt(at)
    enough = np.flatnonzero(reaches <= distance)
    return float(at[enough[0]]) if len(enough) else math.inf


@dataclass(frozen=True)
class _Way:
    """The way to one of the answers: all above 0 as the claim has it, or below, or within."""

    goal: str
    found: Intervals
    sds: Floats
    seeds: Floats
    ends: Floats
    margins: Floats
    chance: float

    def price(self, claim: Combination) -> Price:
        if isinstance(claim, Above):
            return self._contrast(claim.place, self.goal)
        if isinstance(claim, Same):
            return self._contrast(claim.place, "beyond" if self.goal == "below" else "within")
        parts = [self.price(part) for part in claim.parts]
        if self.goal == "within" or isinstance(claim, Every) == (self.goal == "above"):
            needs = {place: seeds for part in parts for place, seeds in part.needs.items()}
            return Price(max(part.seeds for part in parts), needs)
        return min(parts, key=lambda part: part.seeds)

    def _contrast(self, place: int, goal: str) -> Price:
        value, low, high = (float(array[place]) for array in self.found)
        margin, (below, above) = float(self.margins[place]), self.ends[place]
        if goal == "above":
            reached, distance, level = low > 0, value, below
        elif goal == "below":
            reached, distance, level = high < 0, -value, above
        elif goal == "within":
            reached, distance = -margin < low and high < margin, margin - abs(value)
            level = min(below, above)
        else:
            reached, distance = low > margin or high < -margin, abs(value) - margin
            level = min(below, above)
        if reached:
            return Price(0.0)
        # Both ends must be within.
        chance = (1 + self.chance) / 2 if goal == "within" else self.chance
        seeds = seeds_to_tell(distance, float(self.sds[place]), float(level), chance)
        seeds = max(seeds, float(self.seeds[place]) + 1)
        return Price(seeds, {place: seeds})


def _quantile(chance: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(chance))
