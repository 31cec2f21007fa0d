"""Simulate experiments that are decided seed by seed: `python -m benchmarks.decisions`.

The engine that judges real experiments judges simulated ones, with up to 30 seeds a point. The
tables of errors and costs go into docs/decisions.md. The stopping rules are described there, above
the tables. Values are in units of the usual standard deviation between seeds; larger is better.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.measure import ROOT, fill, smoke, table

if __name__ == "__main__":
    smoke(__doc__)  # answers --help before numpy is imported

import numpy as np
from scipy.special import betaincinv, stdtrit

from sweeper.results.statistics.expected_cost import allocated, expected_cost, known
from sweeper.results.statistics.sequential import (
    FIRST,
    Above,
    All,
    AnyOf,
    Combination,
    Decisions,
    Floats,
    Intervals,
    closed,
    decisions,
    effective_seeds,
    intervals,
    levels,
)
from sweeper.results.statistics.spreads import Sample, Spreads, is_bimodal, moderated

DOCUMENT = ROOT / "docs" / "decisions.md"
EFFECTS = (0.0, 0.5, 1.0, 2.0, 4.0)
SEEDS = 30  # a point, at most
MARGIN = 1.0  # of "no difference"


@dataclass(frozen=True)
class Claim:
    """A claim and the weights of its contrasts, (contrasts, points)."""

    holds: Combination
    weights: Floats

    def decisions(self, found: Intervals) -> Decisions:
        """Return the decisions that these intervals give."""
        return decisions(self.holds, found, np.full(len(self.weights), MARGIN))


@dataclass(frozen=True)
class Shape:
    """An experiment to simulate.

    `draw` returns (experiments, points, SEEDS) values around 0. `fixed` are the seeds a point of a
    fixed design with 80 % power for an effect of 1 at the same error.
    """

    name: str
    random_seed: int  # the first part of the seed of the generator
    claims: tuple[Claim, ...]  # of one family
    gains: Floats  # (points,), what an effect of 1 adds to the mean of each
    draw: Callable[[np.random.Generator, int], Floats]
    fixed: int = 24


def shapes() -> list[Shape]:
    """Return all shapes that are simulated."""
    points = 16
    five = pairs(points, 5)
    equal = np.ones(points)
    # On novels at d = 64 the standard deviations were 0.2 to 0.9 %, in no order,
    # and in another setting 0.95 %, most of it from the two widest models.
    unequal = np.geomspace(0.2, 0.9, points)[np.random.default_rng(7).permutation(points)] / 0.45
    wide = np.where(np.arange(points) < 2, 3.0, 1.0)
    two = np.array([1.0, 4.0]) / np.sqrt(8.5)  # 1 in the root mean square
    mixed = partial(bimodal, equal)
    return [
        Shape("five pairs of 16 points", 23, *five, partial(normal, equal)),
        Shape("spreads of 0.2 to 0.9 %", 23, *five, partial(normal, unequal)),
        Shape("two points three times as wide", 30, *five, partial(normal, wide)),
        Shape("heavy tails (t, 3 df)", 21, *five, partial(heavy_tails, equal)),
        Shape("all points bimodal, half learned", 23, *five, mixed),
        Shape("two points bimodal", 23, *five, partial(bimodal, np.floor(wide / 3))),
        Shape("fig1 at demo scale", 18, *figure_1(), partial(normal, equal)),
        Shape("fig1, spreads of 0.2 to 0.9 %", 29, *figure_1(), partial(normal, unequal)),
        Shape("two points, 1 and 4 wide, one claim", 35, *pairs(2, 1), partial(normal, two), 17),
    ]


def pairs(points: int, claims: int) -> tuple[tuple[Claim, ...], Floats]:
    """Return claims that one of two points is better, and gains; no claim is about the others."""
    found, gains = [], np.zeros(points)
    for pair in range(claims):
        weights = np.zeros((1, points))
        weights[0, [2 * pair, 2 * pair + 1]] = 1, -1
        found.append(Claim(Above(0), weights))
        gains[2 * pair] = 1
    return tuple(found), gains


def figure_1() -> tuple[tuple[Claim, ...], Floats]:
    """Return the five claims of conf/experiment/fig1.yaml at demo scale, and gains.

    Nine standard models, three embedding sizes by three numbers of heads; four of fixed head size;
    two matched, one collaborative.
    """
    standard, fixed, others = range(9), range(9, 13), range(13, 16)
    gains = np.zeros(16)
    gains[[2, 5, 8]] = -1  # the most heads of each embedding size
    gains[list(fixed)] = np.arange(4) - 2
    gains[list(others)] = 1

    def rows(*differences: tuple[int, int]) -> Floats:
        weights = np.zeros((len(differences), 16))
        for row, (better, worse) in enumerate(differences):
            weights[row, [better, worse]] = 1, -1
        return weights

    worsens = rows(*((3 * size + few, 3 * size + 2) for size in range(3) for few in range(2)))
    improves = np.zeros((2, 16))
    improves[0, list(fixed)] = 0.3 * (2 * np.arange(4) - 3)  # the slope, times the range
    improves[1, [10, 11, 12]] = -1, 0, 1
    beats = rows(*((small, rival) for small in (12, 13, 14) for rival in standard[6:]))
    equal = rows((13, 3), (14, 6), (15, 3)).mean(axis=0, keepdims=True)
    saves = np.zeros((1, 16))
    saves[0, list(fixed)] = -0.2, 0.1, 0.4, 0.7
    saves[0, [0, 3, 6]] = 0.17, -0.33, -0.84
    triples = [tuple(Above(3 * small + rival) for rival in range(3)) for small in range(3)]
    return (
        Claim(All(tuple(AnyOf((Above(2 * s), Above(2 * s + 1))) for s in range(3))), worsens),
        Claim(All((Above(0), Above(1))), improves),
        Claim(AnyOf(tuple(All(triple) for triple in triples)), beats),
        Claim(Above(0), equal),
        Claim(Above(0), saves),
    ), gains


def normal(sds: Floats, random: np.random.Generator, experiments: int) -> Floats:
    """Draw normal values with these standard deviations."""
    return random.standard_normal((experiments, len(sds), SEEDS)) * sds[:, None]


def heavy_tails(sds: Floats, random: np.random.Generator, experiments: int) -> Floats:
    """Draw values of Student's t distribution with 3 degrees of freedom."""
    drawn = random.standard_t(3, (experiments, len(sds), SEEDS))
    values: Floats = drawn / np.sqrt(3) * sds[:, None]
    return values


def bimodal(mixed: Floats, random: np.random.Generator, experiments: int) -> Floats:
    """Draw seeds that are alike, but at the mixed points a random half of them is 2 better."""
    shape = (experiments, len(mixed), SEEDS)
    learned = random.random(shape) < 0.5
    values: Floats = 0.1 * random.standard_normal(shape) + (2.0 * learned - 1) * mixed[:, None]
    return values


class Simulated:
    """Experiments of one shape and effect, and the true answers to their claims."""

    def __init__(self, shape: Shape, effect: float, experiments: int) -> None:
        random = np.random.default_rng([shape.random_seed, int(2 * effect)])
        drawn = shape.draw(random, experiments)
        means = effect * shape.gains
        self.shape = shape
        self.levels, self.true = [], []
        for claim in shape.claims:
            self.levels.append(levels(claim.holds, len(claim.weights), len(shape.claims)))
            values = claim.weights @ means
            # A true difference within the margin has two right answers.
            within = np.array(bool((abs(values) < MARGIN).all()))
            right = claim.decisions(Intervals(values, values, values))
            self.true.append(right._replace(no_difference=within))
        self.values = drawn + means[:, None]
        seeds = np.arange(1, SEEDS + 1)
        self._means = self.values.cumsum(axis=-1) / seeds
        squares = (drawn**2).cumsum(axis=-1) - seeds * (self._means - means[:, None]) ** 2
        self._variances = np.maximum(squares, 0) / np.maximum(seeds - 1, 1)
        self.used = np.any([(claim.weights != 0).any(axis=0) for claim in shape.claims], axis=0)

    def after(self, counts: Floats, experiments: np.ndarray) -> Sample:
        """Return these experiments with this number of seeds at each point."""
        rows, points = experiments[:, None], np.arange(counts.shape[1])
        at = counts.astype(np.intp) - 1
        return Sample(self._means[rows, points, at], self._variances[rows, points, at], counts)


class Course:
    """The answers to the claims of many experiments while seeds come in.

    `decided` and `wrong`, (experiments, claims), say whether there is an answer, and a wrong one;
    `seeds` has the seeds a point that an answer took.
    """

    def __init__(self, given: Simulated, ends: Callable[..., Intervals] = intervals) -> None:
        shape = (len(given.values), len(given.shape.claims))
        self.given, self.ends = given, ends
        self.decided, self.wrong = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        self.seeds = np.full(shape, float(SEEDS))
        self._seen = [
            Intervals(*(np.full((shape[0], len(claim.weights)), at) for at in (0, -np.inf, np.inf)))
            for claim in given.shape.claims
        ]

    def analyse(self, sample: Sample, experiments: np.ndarray) -> Spreads:
        """Judge every claim of these experiments, given their seeds now."""
        sequential = self.ends is intervals
        spreads = moderated(sample) if sequential else pooled(sample)
        for place, claim in enumerate(self.given.shape.claims):
            # All interim analyses hold at once, so their intervals are intersected.
            seen = self._seen[place]
            newest = self.ends(sample, claim.weights, self.given.levels[place], spreads)
            both = zip(seen, newest, strict=True)
            found = closed(Intervals(*(np.stack([old[experiments], new]) for old, new in both)))
            for old, new in zip(seen, found, strict=True):
                old[experiments] = new
            given = claim.decisions(found)
            fresh = np.any(given, axis=0) & ~self.decided[experiments, place]
            if sequential:
                fresh[fresh] = ~self._bimodal(claim, experiments[fresh], sample.counts[fresh])
            true = self.given.true[place]
            wrong = np.any([one & ~right for one, right in zip(given, true, strict=True)], axis=0)
            self.wrong[experiments[fresh & wrong], place] = True
            self.decided[experiments[fresh], place] = True
            now = effective_seeds(claim.weights, sample.counts).max(axis=-1)
            self.seeds[experiments[fresh], place] = now[fresh]
        return spreads

    def _bimodal(self, claim: Claim, experiments: np.ndarray, counts: Floats) -> np.ndarray:
        """Return whether the points of a claim are bimodal, which leaves it undecided."""
        points = np.flatnonzero((claim.weights != 0).any(axis=0))
        seeds = counts[:, points].astype(int)
        values_of = self.given.values[experiments][:, points]
        found = [
            is_bimodal([row[:n] for row, n in zip(values, own, strict=True)])
            for values, own in zip(values_of, seeds, strict=True)
        ]
        return np.array(found, dtype=bool)

    def needs(self, sample: Sample, spreads: Spreads, experiments: np.ndarray) -> Floats:
        """Return the seeds that each contrast of undecided claims is expected to need."""
        found = []
        for place, claim in enumerate(self.given.shape.claims):
            seen = Intervals(*(ends[experiments] for ends in self._seen[place]))
            margins, error = np.full(len(claim.weights), MARGIN), self.given.levels[place]
            so_far = known(seen, sample, spreads, claim.weights, error, margins)
            so_far = replace(so_far, most=SEEDS)
            still = ~self.decided[experiments, place, None]
            found.append(np.where(still, expected_cost(claim.holds, so_far).needs, 0.0))
        return np.concatenate(found, axis=-1)


def analyses(given: Simulated, seeds: Iterable[int], ends: Callable[..., Intervals]) -> Course:
    """Analyse all experiments whenever every point has one of these numbers of seeds."""
    course, everything = Course(given, ends), np.arange(len(given.values))
    for now in seeds:
        counts = np.full(given.values.shape[:2], float(now))
        course.analyse(given.after(counts, everything), everything)
    return course


def rounds(given: Simulated) -> tuple[Course, Floats]:
    """Buy seeds in rounds as a sweep does; return the course, and the runs of each experiment.

    A round has as many runs as undecided claims have points, where they narrow most.
    """
    course = Course(given)
    weights = np.concatenate([claim.weights for claim in given.shape.claims])
    costs = np.ones(weights.shape[1])
    counts = np.full(given.values.shape[:2], float(FIRST))
    left = np.arange(len(given.values))
    while len(left):
        sample = given.after(counts[left], left)
        spreads = course.analyse(sample, left)
        needs = course.needs(sample, spreads, left)
        runs = (((needs > 0) @ (weights != 0)) > 0).sum(axis=-1)
        more = allocated(weights, needs, sample.counts, costs=costs, most=SEEDS, runs=runs)
        counts[left] += more
        left = left[more.any(axis=-1)]
    return course, counts[:, given.used].sum(axis=-1)


def pooled(sample: Sample) -> Spreads:
    """Return one spread for all points of an experiment."""
    df = sample.df.sum(axis=-1, keepdims=True)
    variances = (sample.df * sample.variances).sum(axis=-1, keepdims=True) / df
    return Spreads(np.broadcast_to(variances, sample.df.shape), df, np.ones(1), df[..., 0])


def student(sample: Sample, weights: Floats, ends: Floats, spreads: Spreads) -> Intervals:
    """Return Student's t intervals with a pooled spread, which are valid for one analysis only."""
    each = spreads.variances / sample.counts
    errors = np.sqrt((weights**2 * each[..., None, :]).sum(axis=-1))
    values, df = sample.means @ weights.T, spreads.df
    low = values + stdtrit(df, ends[:, 0]) * errors
    return Intervals(values, low, values - stdtrit(df, ends[:, 1]) * errors)


def measured(shape: Shape, effect: float, experiments: int) -> tuple[list[str], list[str]]:
    """Apply each stopping rule to the same experiments; return a row of each table."""
    given = Simulated(shape, effect, experiments)
    each = analyses(given, range(FIRST, SEEDS + 1), intervals)
    bought, runs = rounds(given)
    naive = analyses(given, range(2, SEEDS + 1), student)
    fixed = analyses(given, [shape.fixed], student)
    first = each.seeds == each.seeds.min(axis=-1, keepdims=True)
    name = [shape.name, f"{effect:g}" if effect else "none"]
    wrong = (each.wrong, each.wrong & first, bought.wrong, naive.wrong, fixed.wrong)
    seeds, of_fixed = each.seeds.mean(), runs.mean() / (shape.fixed * given.used.sum())
    decided, *others = (f"{course.decided.mean():.0%}" for course in (each, bought, fixed))
    costs = [f"{seeds:.2f}", f"{seeds / shape.fixed:.3f}", decided, f"{of_fixed:.3f}", *others]
    return [*name, *(share(one) for one in wrong)], [*name, *costs]


def share(wrong: np.ndarray) -> str:
    """Return the percentage of experiments with a wrong answer, and its one-sided 95 % bound."""
    hits, tried = int(wrong.any(axis=-1).sum()), len(wrong)
    upper = float(betaincinv(hits + 1, tried - hits, 0.95)) if hits < tried else 1.0
    return f"{100 * hits / tried:.2f} ({100 * upper:.2f})"


def main() -> None:
    """Print the tables; write them into docs/decisions.md unless sizes are tiny."""
    tiny = smoke(__doc__)
    experiments = 100 if tiny else 2000
    begun = time.process_time()
    found = [measured(*one, experiments) for one in itertools.product(shapes(), EFFECTS)]
    taken = time.process_time() - begun
    errors = ("shape", "effect", "each seed", "first answer", "rounds", "naive", "fixed")
    costs = ("shape", "effect", "seeds a point", "of fixed", "decided", "rounds: of fixed")
    text = f"""{experiments:,} experiments a line, {taken:.0f} s of one core.

Experiments with any wrong answer, % (one-sided 95 % bound, Clopper and Pearson):

{table(errors, [wrong for wrong, _ in found])}

Cost of a decision:

{table((*costs, "decided", "fixed: decided"), [cost for _, cost in found])}
"""
    print(text, end="")
    if not tiny:
        fill(DOCUMENT, "benchmarks.decisions", text)


if __name__ == "__main__":
    main()
