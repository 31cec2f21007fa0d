"""Simulate experiments that are decided seed by seed: `python -m benchmarks.decisions`.

The functions that judge real experiments and buy seeds for them do so here for many experiments at
once, with up to 30 seeds a point. The table of errors and costs goes into docs/decisions.md, which
describes the shapes. Values are in units of the usual standard deviation between seeds; larger is
better.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.measure import ROOT, fill, smoke, table

if __name__ == "__main__":
    smoke(__doc__)  # answers --help before numpy is imported

import numpy as np
from scipy.special import betaincinv

from sweeper.results.statistics.expected_cost import Cost, Known, allocated, expected_cost
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
from sweeper.results.statistics.spreads import Errors, Sample, errors, is_bimodal, moderated

DOCUMENT = ROOT / "docs" / "decisions.md"
EFFECTS = (0.0, 1.0, 2.0)
SEEDS = 30  # a point, at most
POINTS = 16  # of an experiment, but for one shape
MARGIN = 1.0  # of "no difference"
COST = "needed / expected (enough)"
LEAST = 100  # claims with an expected cost: fewer give no median


@dataclass(frozen=True)
class Claim:
    """A claim and the weights of its contrasts, (contrasts, points)."""

    holds: Combination
    weights: Floats


@dataclass(frozen=True)
class Shape:
    """An experiment to simulate.

    `draw` returns (experiments, points, SEEDS) values around 0. Points may be alternatives of
    others, if claims are asked at `Each`.
    """

    name: str
    random_seed: int  # the first part of the seed of the generator
    claims: tuple[Claim, ...]  # of one family
    gains: Floats  # (points,), what an effect of 1 adds to the mean of each
    draw: Callable[[np.random.Generator, int], Floats]
    margin: float = MARGIN  # nan: there is none
    own_seeds: bool = False  # of every second point; else all points have the same

    def decisions(self, claim: Claim, found: Intervals) -> Decisions:
        """Return the decisions on a claim that these intervals give."""
        return decisions(claim.holds, found, np.full(len(claim.weights), self.margin))


def shapes() -> list[Shape]:
    """Return all shapes that are simulated."""
    number = np.arange(POINTS)
    five, one = pairs(POINTS, 5), pairs(POINTS, 1)
    equal = np.ones(POINTS)
    # On novels at d = 64 the standard deviations were 0.2 to 0.9 %, in no order,
    # and in another setting 0.95 %, most of it from the two widest models.
    unequal = np.geomspace(0.2, 0.9, POINTS)[np.random.default_rng(7).permutation(POINTS)] / 0.45
    two = np.array([1.0, 4.0]) / np.sqrt(8.5)  # 1 in the root mean square
    first = number % 2 == 0
    five_first = first & (number < 10)  # the better points of the five pairs
    narrow = np.where(first | (number >= 10), 1.0, 0.3)
    lopsided = {sigma: partial(skewed, narrow, five_first, sigma) for sigma in (0.5, 1.0)}
    wide = np.where(number == 0, 6.0, 1.0)
    out_of_step = {
        share: partial(common, equal, np.where(number == 0, 0.0, share)) for share in (0.8, 0.95)
    }
    all_but_two = np.where(np.isin(number, (0, 2)), 0.0, 0.8)  # of two pairs
    return [
        Shape("independent", 23, *five, partial(normal, equal)),
        *(
            Shape(f"correlation {rho:g} within pairs", 23, *five, partial(in_pairs, rho))
            for rho in (-0.3, 0.5, 0.8)
        ),
        Shape("seed effect, 0.5", 23, *five, partial(common, equal, equal * 0.5)),
        Shape("seed effect, 0.8", 23, *five, partial(common, equal, equal * 0.8)),
        Shape("the same but for 2 points", 23, *five, partial(common, equal, all_but_two)),
        Shape("spreads of 0.2 to 0.9 %", 23, *five, partial(normal, unequal)),
        Shape("heavy tails (t, 3 df)", 21, *five, heavy_tails),
        *(
            Shape(f"skewed beside narrow, {sigma:g}", 23, *five, draw)
            for sigma, draw in lopsided.items()
        ),
        Shape("independent, no margin", 23, *five, partial(normal, equal), np.nan),
        *(
            Shape(f"skewed beside narrow, {sigma:g}, {what}", 23, *five, draw, np.nan, own_seeds)
            for sigma, draw in lopsided.items()
            for what, own_seeds in (("no margin", False), ("own seeds, no margin", True))
        ),
        Shape("5 % bad seeds", 23, *five, partial(failing, narrow, five_first)),
        Shape("two points bimodal", 23, *five, partial(bimodal, number < 2)),
        *(
            Shape(f"one point out of step, {share:g}, no margin", 23, *one, draw, np.nan)
            for share, draw in out_of_step.items()
        ),
        Shape("arms of 4 points, own seeds", 23, *arms(), by_arm, own_seeds=True),
        Shape("arms of 4 points, own seeds, no margin", 23, *arms(), by_arm, np.nan, True),
        Shape("fig1, seed effect, 0.5", 18, *figure_1(), partial(common, unequal, equal * 0.5)),
        Shape("one point 6 wide", 23, *one, partial(normal, wide)),
        Shape("one point 6 wide, own seeds", 23, *one, partial(normal, wide), own_seeds=True),
        Shape("two points, 1 and 4 wide", 35, *pairs(2, 1), partial(normal, two)),
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


def arms() -> tuple[tuple[Claim, ...], Floats]:
    """Return the claim that the mean of one arm's four points is better than another's, and gains.

    The arms are every second of the first eight points, so they can have seeds of their own.
    """
    gains = np.where(np.arange(POINTS) % 2 == 0, 1.0, 0.0)
    weights = np.where(np.arange(POINTS) < 8, gains / 2 - 0.25, 0.0)
    return (Claim(Above(0), weights[None]),), gains


def figure_1() -> tuple[tuple[Claim, ...], Floats]:
    """Return the five claims of conf/experiment/fig1.yaml at demo scale, and gains.

    Nine standard models, three embedding sizes by three numbers of heads; four of fixed head size;
    two matched, one collaborative.
    """
    standard, fixed, others = range(9), range(9, 13), range(13, 16)
    gains = np.zeros(POINTS)
    gains[[2, 5, 8]] = -1  # the most heads of each embedding size
    gains[list(fixed)] = np.arange(4) - 2
    gains[list(others)] = 1

    def rows(*differences: tuple[int, int]) -> Floats:
        weights = np.zeros((len(differences), POINTS))
        for row, (better, worse) in enumerate(differences):
            weights[row, [better, worse]] = 1, -1
        return weights

    worsens = rows(*((3 * size + few, 3 * size + 2) for size in range(3) for few in range(2)))
    improves = np.zeros((2, POINTS))
    improves[0, list(fixed)] = 0.3 * (2 * np.arange(4) - 3)  # the slope, times the range
    improves[1, [10, 11, 12]] = -1, 0, 1
    beats = rows(*((small, rival) for small in (12, 13, 14) for rival in standard[6:]))
    equal = rows((13, 3), (14, 6), (15, 3)).mean(axis=0, keepdims=True)
    saves = np.zeros((1, POINTS))
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


def common(sds: Floats, shares: Floats, random: np.random.Generator, experiments: int) -> Floats:
    """Draw normal values whose seeds have an effect on all points; `shares` of each variance."""
    effect = random.standard_normal((experiments, 1, SEEDS)) * np.sqrt(shares)[:, None]
    return sds[:, None] * effect + normal(sds * np.sqrt(1 - shares), random, experiments)


def by_arm(random: np.random.Generator, experiments: int) -> Floats:
    """Draw normal values whose seeds have an effect, 0.8 of the variance, on every second point."""
    effects = random.standard_normal((experiments, 2, SEEDS))[:, np.arange(POINTS) % 2]
    own = normal(np.full(POINTS, np.sqrt(0.2)), random, experiments)
    values: Floats = np.sqrt(0.8) * effects + own
    return values


def in_pairs(correlation: float, random: np.random.Generator, experiments: int) -> Floats:
    """Draw normal values; those of each two points are correlated."""
    values = normal(np.ones(POINTS), random, experiments)
    values[:, 1::2] *= np.sqrt(1 - correlation**2)
    values[:, 1::2] += correlation * values[:, ::2]
    return values


def heavy_tails(random: np.random.Generator, experiments: int) -> Floats:
    """Draw values of Student's t distribution with 3 degrees of freedom."""
    values: Floats = random.standard_t(3, (experiments, POINTS, SEEDS)) / np.sqrt(3)
    return values


def bimodal(mixed: np.ndarray, random: np.random.Generator, experiments: int) -> Floats:
    """Draw seeds that are alike, but at the mixed points a random half of them is 2 better."""
    shape = (experiments, len(mixed), SEEDS)
    learned = random.random(shape) < 0.5
    values: Floats = 0.1 * random.standard_normal(shape) + (2.0 * learned - 1) * mixed[:, None]
    return values


def skewed(
    sds: Floats, which: np.ndarray, sigma: float, random: np.random.Generator, experiments: int
) -> Floats:
    """Draw values that are lognormal at some points, of variance 1 around 0, normal at others."""
    values = normal(sds, random, experiments)
    drawn = np.exp(sigma * random.standard_normal(values.shape))
    mean = np.exp(sigma**2 / 2)
    scaled = (drawn - mean) / (mean * np.sqrt(np.exp(sigma**2) - 1))
    return np.where(which[:, None], scaled, values)


def failing(
    sds: Floats, which: np.ndarray, random: np.random.Generator, experiments: int
) -> Floats:
    """Draw normal values; 5 % are 10 worse at these points, and 0 is the mean of the others."""
    values = normal(sds, random, experiments)
    found: Floats = values - 10.0 * ((random.random(values.shape) < 0.05) & which[:, None])
    return found


class Course:
    """The answers to the claims of many experiments of one shape and effect while seeds come in.

    `decided` and `wrong`, (experiments, claims), say whether there is an answer, and a wrong one.
    """

    def __init__(self, shape: Shape, effect: float, experiments: int) -> None:
        random = np.random.default_rng([shape.random_seed, int(2 * effect)])
        means = effect * shape.gains
        self.shape, self.values = shape, shape.draw(random, experiments) + means[:, None]
        if shape.own_seeds:
            even = np.arange(len(means))[:, None] % 2 == 0
            parts = (np.where(mask, self.values, np.nan) for mask in (even, ~even))
            self.values = np.concatenate([*parts], axis=-1)
        self.weights = np.concatenate([claim.weights for claim in shape.claims])
        ends = np.cumsum([0, *(len(claim.weights) for claim in shape.claims)])
        self._own = [slice(first, end) for first, end in itertools.pairwise(ends)]
        of_claim = [levels(c.holds, len(c.weights), len(shape.claims)) for c in shape.claims]
        self.levels = np.concatenate(of_claim)
        self.true = []
        for claim in shape.claims:
            values = claim.weights @ means
            # A true difference within the margin has two right answers.
            within = np.array(bool((abs(values) < shape.margin).all()))
            right = shape.decisions(claim, Intervals(values, values, values))
            self.true.append(right._replace(no_difference=within))
        self.decided = np.zeros((experiments, len(shape.claims)), dtype=bool)
        self.wrong = self.decided.copy()
        self.seen = Intervals(
            *(np.full((experiments, len(self.weights)), at) for at in (0, -np.inf, np.inf))
        )

    def analyse(self, sample: Sample, experiments: np.ndarray) -> Errors:
        """Judge every claim of these experiments, given their seeds now."""
        now = errors(sample, self.weights, moderated(sample))
        newest = intervals(sample, self.weights, self.levels, now)
        both = zip(self.seen, newest, strict=True)
        # All analyses hold at once, so their intervals are intersected, one after the other.
        found = closed(Intervals(*(np.stack([old[experiments], new]) for old, new in both)))
        for old, new in zip(self.seen, found, strict=True):
            old[experiments] = new
        for place, claim in enumerate(self.shape.claims):
            ends = Intervals(*(one[:, self._own[place]] for one in found))
            given = self.shape.decisions(claim, ends)
            fresh = np.any(given, axis=0) & ~self.decided[experiments, place]
            fresh[fresh] = ~bimodal_points(claim, sample.values[fresh])
            true = self.true[place]
            wrong = np.any([one & ~right for one, right in zip(given, true, strict=True)], axis=0)
            self.wrong[experiments[fresh & wrong], place] = True
            self.decided[experiments[fresh], place] = True
        return now

    def costs(self, sample: Sample, now: Errors, experiments: np.ndarray) -> list[Cost]:
        """Return the expected cost of each claim, with at most SEEDS seeds a point."""
        seen = Intervals(*(ends[experiments] for ends in self.seen))
        margins = np.full(len(self.weights), self.shape.margin)
        counts = effective_seeds(self.weights, sample.counts)
        every = Known(seen, np.sqrt(now.single), counts, self.levels, margins, SEEDS)
        claims = zip(self.shape.claims, self._own, strict=True)
        return [expected_cost(claim.holds, every.of(own)) for claim, own in claims]


def bimodal_points(claim: Claim, values: Floats) -> np.ndarray:
    """Return for each experiment whether the claim's points are bimodal: it stays undecided."""
    used = (claim.weights != 0).any(axis=0)
    found = [is_bimodal(row[~np.isnan(row)] for row in rows) for rows in values[:, used]]
    return np.array(found, dtype=bool)


def each_seed(course: Course) -> Floats:
    """Analyse after every seed of all points, until every claim of an experiment is decided.

    Return the seeds that each claim took, divided by those expected after FIRST seeds: of claims
    that were undecided then, and expected to take at most SEEDS. Infinity if one took more.
    """
    left = np.arange(len(course.values))
    took = np.full(course.decided.shape, np.inf)
    for now in range(FIRST, SEEDS + 1):
        sample = Sample(course.values[left]).first(now)
        found = course.analyse(sample, left)
        if now == FIRST:
            costs = course.costs(sample, found, left)
            expected = np.stack([cost.seeds for cost in costs], axis=-1)
            expected[course.decided] = np.inf
        took[course.decided & np.isinf(took)] = now
        left = left[~course.decided[left].all(axis=-1)]
    in_sight = np.isfinite(expected)
    return took[in_sight] / expected[in_sight]


def rounds(course: Course) -> Floats:
    """Buy seeds in rounds as a sweep does; return the runs of each experiment.

    A round has as many runs as undecided claims have points, where they narrow most.
    """
    weights, used = course.weights, (course.weights != 0).any(axis=0)
    counts = np.full(course.values.shape[:2], float(FIRST))
    left = np.arange(len(counts))
    while len(left):
        sample = Sample(course.values[left]).first(counts[left])
        costs = course.costs(sample, course.analyse(sample, left), left)
        undecided = ~course.decided[left].T[..., None]
        each = zip(undecided, costs, strict=True)
        needs = np.concatenate([np.where(one, cost.needs, 0.0) for one, cost in each], axis=-1)
        needed = (((needs > 0) @ (weights != 0)) > 0).sum(axis=-1)
        more = allocated(
            weights, needs, sample.counts, costs=np.ones(len(used)), most=SEEDS, runs=needed
        )
        counts[left] += more
        left = left[more.any(axis=-1)]
    runs: Floats = counts[:, used].sum(axis=-1)
    return runs


def measured(shape: Shape, effect: float, experiments: int) -> list[str]:
    """Return a row of the table."""
    each, bought = (Course(shape, effect, experiments) for _ in range(2))
    beside = each_seed(each)
    cost = "too few"
    if len(beside) >= LEAST:
        middle = np.median(beside)
        times = f"{middle:.2f}" if np.isfinite(middle) else f"over {SEEDS} seeds"
        cost = f"{times} ({(beside <= 1).mean():.0%})"
    runs = rounds(bought).sum() / max(bought.decided.sum(), 1)
    decided = f"{bought.decided.mean():.0%}"
    wrong = (share(each.wrong), share(bought.wrong))
    return [shape.name, f"{effect:g}" if effect else "none", *wrong, decided, f"{runs:.1f}", cost]


def share(wrong: np.ndarray) -> str:
    """Return the percentage of experiments with a wrong answer, and its one-sided 95 % bound."""
    hits, tried = int(wrong.any(axis=-1).sum()), len(wrong)
    upper = float(betaincinv(hits + 1, tried - hits, 0.95)) if hits < tried else 1.0
    return f"{100 * hits / tried:.2f} ({100 * upper:.2f})"


def publish(
    module: str, experiments: int, head: Sequence[str], rows: Iterable[list[str]], *, tiny: bool
) -> None:
    """Simulate the rows and print their table; write it into docs/decisions.md unless `tiny`."""
    begun = time.process_time()
    simulated = table(head, rows)
    taken = time.process_time() - begun
    text = f"{experiments:,} experiments a line, {taken:.0f} s of one core.\n\n{simulated}\n"
    print(text, end="")
    if not tiny:
        fill(DOCUMENT, module, text)


def main() -> None:
    """Simulate every shape at every effect."""
    tiny = smoke(__doc__)
    experiments = 50 if tiny else 2000
    rows = (measured(*one, experiments) for one in itertools.product(shapes(), EFFECTS))
    head = ("shape", "effect", "wrong, each seed, %", "wrong, rounds, %", "decided", "runs a claim")
    publish("benchmarks.decisions", experiments, (*head, COST), rows, tiny=tiny)


if __name__ == "__main__":
    main()
