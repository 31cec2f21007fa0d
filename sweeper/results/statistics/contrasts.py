"""Sums of weight * mean over points, with intervals that hold however often one looks.

With a low and a high end of one-sided level a each, the chance that the interval of a contrast ever
misses its true value, whenever one looks, is at most 2 a. Leading dimensions are of experiments, or
of one experiment's looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sweeper.results.statistics.boundary import FIRST, reach
from sweeper.results.statistics.spreads import LEAST_DF, Floats, Sample, Spreads, moderated, sample


class Intervals(NamedTuple):
    """Estimates of contrasts and their ends, (..., contrasts); infinite where nothing is known."""

    values: Floats
    lows: Floats
    highs: Floats


def intervals(
    given: Sample, weights: Floats, levels: Floats, spreads: Spreads | None = None
) -> Intervals:
    """The intervals of contrasts of these weights (contrasts, points).

    `levels` (contrasts, 2) are one-sided, of the low ends and the high ends. An end is infinite
    before every point of the contrast has FIRST seeds and all points of the experiment together
    LEAST_DF degrees of freedom. `spreads` are those of the sample, where they are known already.
    """
    spreads = spreads or moderated(given)
    values = given.means @ weights.T
    squared, df = spreads.of(weights, given.counts)
    seeds = effective_seeds(weights, given.counts)
    seeds = np.where(spreads.pooled_df[..., None] < LEAST_DF, 0.0, seeds)
    ends = []
    for side in levels.T:
        error = np.full(values.shape, np.inf)
        for level in set(side.tolist()):
            at = side == level
            known = np.isfinite(squared[..., at]) & (seeds[..., at] >= FIRST)
            if known.any():  # a boundary takes a while to solve for
                far = np.where(known, reach(seeds[..., at], df[..., at], level), np.inf)
                with np.errstate(invalid="ignore"):
                    error[..., at] = np.where(known, far * np.sqrt(squared[..., at]), np.inf)
        ends.append(error)
    return Intervals(values, values - ends[0], values + ends[1])


def effective_seeds(weights: Floats, counts: Floats) -> Floats:
    """How many seeds a point would know as much of a contrast as these do: (..., contrasts).

    0 where a point of the contrast has fewer than FIRST.
    """
    squares = weights**2
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(squares > 0, squares / counts[..., None, :], 0.0)
        seeds = squares.sum(axis=-1) / each.sum(axis=-1)
    few = ((squares > 0) & (counts[..., None, :] < FIRST)).any(axis=-1)
    return np.where(few, 0.0, seeds)


def looks(groups: Sequence[Sequence[float]]) -> Sample:
    """An experiment after FIRST seeds a point, one more, ... and as it is: (looks, points).

    `groups` are the values of each point in the order of seeds.
    """
    most = max((len(group) for group in groups), default=0)
    found = [
        sample([group[:seeds] for group in groups]) for seeds in range(FIRST, max(most, FIRST) + 1)
    ]
    return Sample(*(np.stack(arrays) for arrays in zip(*found, strict=True)))


def closed(seen: Intervals) -> Intervals:
    """What all looks together leave of the intervals: they hold all at once, so their intersection.

    What was decided once then stays decided. Where nothing is left, which happens with a chance of
    at most the level, the last look counts. The first dimension is of looks, and is lost.
    """
    low, high = seen.lows.max(axis=0), seen.highs.min(axis=0)
    empty = low > high
    return Intervals(
        seen.values[-1],
        np.where(empty, seen.lows[-1], low),
        np.where(empty, seen.highs[-1], high),
    )
