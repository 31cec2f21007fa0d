"""Rules of stopping, tried on simulated experiments with the engine that judges real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from benchmarks.simulated import MARGIN, SEEDS, Claim, Shape
from sweeper.results.statistics.expected_cost import allocated, known, price
from sweeper.results.statistics.sequential import (
    FIRST,
    Answers,
    Floats,
    Intervals,
    answers,
    closed,
    effective_seeds,
    intervals,
    levels,
)
from sweeper.results.statistics.spreads import Sample, Spreads, moderated, two_heaps


class Simulated:
    """Experiments of one shape and effect, with what is true of their claims."""

    def __init__(self, shape: Shape, effect: float, experiments: int) -> None:
        random = np.random.default_rng([len(shape.name), int(2 * effect)])
        drawn = shape.seeds(random, experiments)
        truth = effect * shape.gains
        self.shape = shape
        self.levels = [
            levels(claim.holds, len(claim.weights), len(shape.claims)) for claim in shape.claims
        ]
        self.true = [_true(claim, claim.weights @ truth) for claim in shape.claims]
        self.values = drawn + truth[:, None]
        seeds = np.arange(1, SEEDS + 1)
        self._means = self.values.cumsum(axis=-1) / seeds
        squares = (drawn**2).cumsum(axis=-1) - seeds * (self._means - truth[:, None]) ** 2
        self._variances = np.maximum(squares, 0) / np.maximum(seeds - 1, 1)
        self.used = np.any([(claim.weights != 0).any(axis=0) for claim in shape.claims], axis=0)

    def after(self, counts: Floats, experiments: np.ndarray) -> Sample:
        """These experiments when each point has so many seeds, (experiments, points)."""
        rows, points = experiments[:, None], np.arange(counts.shape[1])
        at = counts.astype(np.intp) - 1
        return Sample(self._means[rows, points, at], self._variances[rows, points, at], counts)


class Course:
    """How claims of many experiments are answered as seeds come in."""

    def __init__(self, given: Simulated, ends: Callable[..., Intervals] = intervals) -> None:
        shape = (len(given.values), len(given.shape.claims))
        self.given, self.ends = given, ends
        self.spreads = moderated if ends is intervals else pooled
        self.decided, self.wrong = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        self.seeds = np.full(shape, float(SEEDS))
        self.seen = [
            Intervals(*(np.full((shape[0], len(claim.weights)), at) for at in (0, -np.inf, np.inf)))
            for claim in given.shape.claims
        ]

    def look(self, sample: Sample, experiments: np.ndarray) -> Spreads:
        """Judge every claim of these experiments, given their seeds now."""
        spreads = self.spreads(sample)
        for place, claim in enumerate(self.given.shape.claims):
            found = self.ends(sample, claim.weights, self.given.levels[place], spreads)
            said = _answers(claim, self._closed(place, experiments, found))
            fresh = np.any(said, axis=0) & ~self.decided[experiments, place]
            fresh[fresh] = ~self._heaps(claim, experiments[fresh], sample.counts[fresh])
            true = self.given.true[place]
            wrong = np.any([one & ~right for one, right in zip(said, true, strict=True)], axis=0)
            self.wrong[experiments[fresh & wrong], place] = True
            self.decided[experiments[fresh], place] = True
            now = effective_seeds(claim.weights, sample.counts).max(axis=-1)
            self.seeds[experiments[fresh], place] = now[fresh]
        return spreads

    def _closed(self, place: int, experiments: np.ndarray, found: Intervals) -> Intervals:
        """The intersection of all looks so far, of the newest where nothing is left."""
        seen = self.seen[place]
        pairs = zip(seen, found, strict=True)
        left = closed(Intervals(*(np.stack([before[experiments], now]) for before, now in pairs)))
        for before, now in zip(seen, left, strict=True):
            before[experiments] = now
        return left

    def needs(self, sample: Sample, spreads: Spreads, experiments: np.ndarray) -> Floats:
        """The seeds that contrasts of undecided claims take, those of all claims side by side."""
        found = []
        for place, claim in enumerate(self.given.shape.claims):
            seen = Intervals(*(ends[experiments] for ends in self.seen[place]))
            margins = np.full(len(claim.weights), MARGIN)
            ends = self.given.levels[place]
            so_far = known(seen, sample, spreads, claim.weights, ends, margins)
            so_far = replace(so_far, most=SEEDS)
            still = ~self.decided[experiments, place, None]
            found.append(np.where(still, price(claim.holds, so_far).needs, 0.0))
        return np.concatenate(found, axis=-1)

    def _heaps(self, claim: Claim, experiments: np.ndarray, counts: Floats) -> np.ndarray:
        """Whether the points of a claim lie in two heaps, which leaves it undecided."""
        if self.ends is not intervals:
            return np.zeros(len(experiments), dtype=bool)
        points = np.flatnonzero((claim.weights != 0).any(axis=0))
        seeds = counts[:, points].astype(int)
        values_of = self.given.values[experiments][:, points]
        return np.array(
            [
                two_heaps([row[:n] for row, n in zip(values, own, strict=True)])
                for values, own in zip(values_of, seeds, strict=True)
            ],
            dtype=bool,
        )


def looks(given: Simulated, seeds: Iterable[int], ends: Callable[..., Intervals]) -> Course:
    """Look when all points have each of these numbers of seeds."""
    course, everything = Course(given, ends), np.arange(len(given.values))
    for now in seeds:
        counts = np.full(given.values.shape[:2], float(now))
        course.look(given.after(counts, everything), everything)
    return course


def rounds(given: Simulated) -> tuple[Course, Floats]:
    """Train in each round as many runs as undecided claims have points, where they narrow most."""
    course = Course(given, intervals)
    weights = np.concatenate([claim.weights for claim in given.shape.claims])
    costs = np.ones(weights.shape[1])
    counts = np.full(given.values.shape[:2], float(FIRST))
    left = np.arange(len(given.values))
    while len(left):
        sample = given.after(counts[left], left)
        spreads = course.look(sample, left)
        needs = course.needs(sample, spreads, left)
        runs = (((needs > 0) @ (weights != 0)) > 0).sum(axis=-1)
        more = allocated(weights, needs, sample.counts, costs=costs, most=SEEDS, runs=runs)
        counts[left] += more
        left = left[more.any(axis=-1)]
    return course, counts[:, given.used].sum(axis=-1)


def pooled(sample: Sample) -> Spreads:
    df = sample.df.sum(axis=-1, keepdims=True)
    variances = (sample.df * sample.variances).sum(axis=-1, keepdims=True) / df
    return Spreads(np.broadcast_to(variances, sample.df.shape), df, np.ones(1), df[..., 0])


def student(sample: Sample, weights: Floats, ends: Floats, spreads: Spreads) -> Intervals:
    """Student's t intervals of one pooled spread, right for one look only."""
    each = spreads.variances / sample.counts
    errors = np.sqrt((weights**2 * each[..., None, :]).sum(axis=-1))
    values, df = sample.means @ weights.T, spreads.df
    return Intervals(
        values,
        values + stdtrit(df, ends[:, 0]) * errors,
        values - stdtrit(df, ends[:, 1]) * errors,
    )


def _answers(claim: Claim, found: Intervals) -> Answers:
    return answers(claim.holds, found, np.full(len(claim.weights), MARGIN))


def _true(claim: Claim, values: Floats) -> Answers:
    """The answers that are right: one of a difference within the margin has two."""
    said = _answers(claim, Intervals(values, values, values))
    within = bool((abs(values) < MARGIN).all())
    return said._replace(no_difference=np.array(within))
