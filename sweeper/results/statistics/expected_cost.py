"""The expected cost of deciding a claim, and the next seeds that narrow its contrasts cheapest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, reduce
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sweeper.results.statistics.sequential import (
    FIRST,
    Above,
    All,
    Combination,
    Each,
    Floats,
    Intervals,
    Same,
    bound,
)


def allocated(
    weights: Floats,
    needs: Floats,
    counts: Floats,
    *,
    costs: Floats,
    most: int,
    runs: int | npt.NDArray[np.int_],
) -> Floats:
    """Return how many seeds each point gets next, (..., points): at most `runs` in all.

    Every point of these contrasts first gets FIRST seeds, whatever `runs` is, because no claim can
    be decided with fewer. Then seeds are added one by one: each is the seed that removes the
    largest share of the squared errors for its cost. No contrast is narrowed beyond its need. A
    contrast buys only for the points that have its fewest seeds, because a seed counts most where
    all of its points share it. All points are assumed to spread alike, so that a point whose few
    seeds lie together by luck does not get fewer.

    Args:
        weights: (contrasts, points), of all contrasts of all undecided claims.
        needs: (..., contrasts), of `expected_cost`: seeds a point in all, 0 if not needed.
        counts: (..., points), the seeds measured so far.
        costs: (points,), of one run, above 0.
        most: the largest number of seeds of a point.
        runs: how many to train at once; (...) where experiments differ.
    """
    needed = needs > 0
    used = np.einsum("...c,cp->...p", needed, weights != 0) > 0
    before, counts = counts, np.maximum(counts, np.where(used, min(FIRST, most), 0))
    squares = np.where(needed[..., None], weights**2, 0.0)
    targets = squares.sum(axis=-1) / np.where(needed, needs, np.inf)
    left = runs - (counts - before).sum(axis=-1)
    while (left > 0).any():
        # The next seed's share of the squared errors, summed over contrasts above their target.
        seeds = np.maximum(counts, 1)  # a point that no contrast needs may have none
        errors = (squares / seeds[..., None, :]).sum(axis=-1)
        shares = np.where(errors > targets * (1 + 1e-9), 1 / np.maximum(errors, 1e-300), 0.0)
        few = np.where(squares > 0, counts[..., None, :], np.inf)
        few = np.where(few == few.min(axis=-1, keepdims=True), squares, 0.0)
        gains = np.einsum("...c,...cp->...p", shares, few) / (seeds * (seeds + 1)) / costs
        gains = np.where((counts < most) & (left > 0)[..., None], gains, 0.0)
        best = gains.argmax(axis=-1)[..., None]
        more = np.take_along_axis(gains, best, axis=-1) > 0
        np.put_along_axis(counts, best, np.take_along_axis(counts, best, axis=-1) + more, axis=-1)
        left = np.where(more[..., 0], left - 1, 0)
    return counts - before


MOST = 1000  # seeds a point; stands for any larger number too

Goal = Literal["above", "below", "within", "beyond"]


class Cost(NamedTuple):
    """The seeds a point, (...), that the cheapest decision takes; MOST means that none is in sight.

    `needs` (..., contrasts) are the seeds that each contrast takes for it, 0 where it adds nothing.
    """

    seeds: Floats
    needs: Floats


@dataclass(frozen=True)
class Known:
    """The present knowledge of contrasts, each array (..., contrasts) or (contrasts,).

    Attributes:
        found: estimates and ends; before any measurement, assumed effects with infinite ends.
        sds: the standard deviation of each contrast if every point had one seed.
        seeds: the number of seeds at every point that would leave the same error.
        levels: of their low and high ends, (contrasts, 2).
        margins: nan where there is none.
        most: the largest number of seeds of a point; a contrast that has them costs infinity.
    """

    found: Intervals
    sds: Floats
    seeds: Floats
    levels: Floats
    margins: Floats
    most: float = MOST

    def of(self, contrasts: slice) -> Known:
        """Return the same of some contrasts."""
        found = Intervals(*(ends[..., contrasts] for ends in self.found))
        rest = (self.sds[..., contrasts], self.seeds[..., contrasts])
        return Known(found, *rest, self.levels[contrasts], self.margins[contrasts], self.most)


def expected_cost(claim: Combination, known: Known, chance: float = 0.5) -> Cost:
    """Return the cost of the cheapest decision if each contrast is as large as estimated.

    `chance` is the probability that the seeds are enough if the spread is known. The claim must be
    undecided.
    """
    goals: tuple[Goal, ...] = ("above", "below", "within")
    return reduce(_cheaper, (_way(claim, goal, known, chance) for goal in goals))


def seeds_to_exclude(distances: Floats, sds: Floats, level: float, chance: float = 0.5) -> Floats:
    """Return the fewest seeds a point that probably exclude values this far from estimates.

    MOST for a distance of 0 or less, and if it takes more.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        wanted = np.where(distances > 0, distances / sds, -1.0)
    found = np.full(wanted.shape, float(MOST))
    if (wanted > 0).any():
        falling = _distances_excluded(level, chance)
        enough = MOST + 1 - np.searchsorted(falling, np.nan_to_num(wanted, nan=-1.0), side="right")
        found = np.where(wanted > 0, np.minimum(enough, MOST), found)
    return found


@cache
def _distances_excluded(level: float, chance: float) -> Floats:
    """Return the distances that MOST, MOST - 1, ... FIRST seeds probably exclude, in sds."""
    from scipy.special import ndtri

    at = np.arange(FIRST, MOST + 1, dtype=np.float64)
    reaches = (bound(at, level) + float(ndtri(chance))) / np.sqrt(at)
    return np.minimum.accumulate(reaches)[::-1]


def _way(claim: Combination, goal: Goal, known: Known, chance: float) -> Cost:
    """Return the cost of one decision: contrasts above 0 as claimed, or below, or within."""
    if isinstance(claim, Above):
        return _contrast(claim.place, goal, known, chance)
    if isinstance(claim, Same):
        return _contrast(claim.place, "beyond" if goal == "below" else "within", known, chance)
    together = goal == "within" or isinstance(claim, Each)
    together = together or isinstance(claim, All) == (goal == "above")
    parts = (_way(part, goal, known, chance) for part in claim.parts)
    return reduce(_both if together else _cheaper, parts)


def _both(one: Cost, other: Cost) -> Cost:
    return Cost(np.maximum(one.seeds, other.seeds), np.maximum(one.needs, other.needs))


def _cheaper(one: Cost, other: Cost) -> Cost:
    less = other.seeds < one.seeds
    seeds = np.where(less, other.seeds, one.seeds)
    return Cost(seeds, np.where(less[..., None], other.needs, one.needs))


def _contrast(place: int, goal: Goal, known: Known, chance: float) -> Cost:
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
    seeds = seeds_to_exclude(distance, known.sds[..., place], float(level), likely)
    next_seed = np.floor(known.seeds[..., place] + 1e-6) + 1  # the present ones were too few
    seeds = np.where(next_seed > known.most, np.inf, np.maximum(seeds, next_seed))
    seeds = np.where(reached, 0.0, seeds)
    needs = np.zeros(np.broadcast_shapes(known.found.values.shape))
    needs[..., place] = seeds
    return Cost(seeds, needs)
