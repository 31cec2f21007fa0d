"""Simulate experiments that are decided seed by seed: `python -m benchmarks.decisions`.

The functions that judge real experiments also judge the simulated ones. Each round adds a seed per
point, up to 30. docs/decisions.md describes each kind of experiment (`Shape`), and has the table of
errors and costs that this benchmark writes. Values are in units of the usual standard deviation
between seeds. Larger values are better.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from benchmarks.measure import ROOT, fill, smoke, table

if __name__ == "__main__":
    smoke(__doc__)  # so that --help is answered before numpy is imported

import numpy as np
from scipy.special import betaincinv

from sweeper.results.design import All, AnyOf, Contrast, Statement, decide, levels
from sweeper.results.statistics.bimodal import is_bimodal
from sweeper.results.statistics.blocks import estimates, first_seeds, intervals
from sweeper.results.statistics.sequential import (
    FIRST,
    Floats,
    Intervals,
    intersection,
)
from sweeper.results.verdict import Decision
from sweeper.store.plans import ERROR

DOCUMENT = ROOT / "docs" / "decisions.md"
# Maps the size of an effect to the number of experiments to simulate.
EXPERIMENTS = {0.0: 1000, 1.0: 200, 2.0: 200, 3.0: 200}
SEEDS = 30  # the largest number of seeds per point
POINTS = 16  # the number of points of an experiment, in all shapes except one
MARGIN = 1.0  # the margin for "no difference"
NUMBER = np.arange(POINTS)  # the index of each point
# The standard deviation between the seeds of each point, as on the novels at d = 64: 0.2 to 0.9 %,
# in random order. The unit of values is 0.45 %.
NOVELS = (
    np.geomspace(0.2, 0.9, POINTS)[np.random.default_rng(7).permutation(POINTS)] / 0.45
)
ONE = Contrast("", ())  # a placeholder: `Claim.weights` has the weights


@dataclass(frozen=True)
class Claim:
    """A claim and the weights of its contrasts, of shape (contrasts, points)."""

    statement: Statement
    weights: Floats


@dataclass(frozen=True)
class Shape:
    """An experiment to simulate.

    Attributes:
        name: the name of the shape in the table.
        random_seed: the first part of the random generator's seed. The second is 2 * effect.
        claims: the claims, which share one error rate.
        gains: how much an effect of 1 increases the mean of each point, of shape (points,).
        draw: the function `draw(generator, experiments)`. It returns random scores with mean 0, of
            shape (experiments, points, SEEDS).
        margin: the margin for "no difference". nan means that there is no margin.
        own_seeds: whether the points with odd numbers have other seeds than those with even
            numbers. By default, all points share their seeds.
    """

    name: str
    random_seed: int
    claims: tuple[Claim, ...]
    gains: Floats
    draw: Callable[[np.random.Generator, int], Floats]
    margin: float = MARGIN
    own_seeds: bool = False

    def decision(self, claim: Claim, found: Intervals) -> Decision:
        """Return the decision on a claim, given the intervals of its contrasts."""
        return decide(claim.statement, found, self.margin)

    def levels(self, claim: Claim) -> Floats:
        """Return the accepted error probabilities of intervals, of shape (contrasts, 2).

        They are the probabilities that the true contrast lies below and above its interval. Each
        claim gets an equal part of the error rate.
        """
        level = ERROR / len(self.claims) / 2
        return levels(claim.statement, level, level)

    def truth(self, claim: Claim, means: Floats) -> set[Decision]:
        """Return the correct decisions on a claim if `means` are the true means of the points.

        If all true differences are within the margin, NO_DIFFERENCE is correct, too.
        """
        values = claim.weights @ means
        right = {self.decision(claim, Intervals(values, values, values))}
        if (abs(values) < self.margin).all():
            right.add(Decision.NO_DIFFERENCE)
        return right


def shapes() -> list[Shape]:
    """Return all shapes to simulate."""
    return [
        *equal_spreads(),
        *unequal_spreads(),
        *other_distributions(),
        *claims_of_arms(),
    ]


def equal_spreads() -> list[Shape]:
    """Return shapes with normal values, and equal standard deviations at all points."""
    five = pairs(POINTS, 5)
    equal = np.ones(POINTS)
    independent = partial(normal, equal)

    # The share of the seed effect in the variance of each point. Two points, one of the first pair
    # and one of the second, have no seed effect.
    all_but_two = np.where(np.isin(NUMBER, (0, 2)), 0.0, 0.8)

    return [
        Shape("independent", 23, *five, independent),
        Shape("independent, no margin", 23, *five, independent, margin=np.nan),
        Shape("correlation -0.3 within pairs", 23, *five, partial(in_pairs, -0.3)),
        Shape("correlation 0.5 within pairs", 23, *five, partial(in_pairs, 0.5)),
        Shape("correlation 0.8 within pairs", 23, *five, partial(in_pairs, 0.8)),
        Shape("seed effect, 0.5", 23, *five, partial(common, equal, equal * 0.5)),
        Shape("seed effect, 0.8", 23, *five, partial(common, equal, equal * 0.8)),
        Shape(
            "the same but for 2 points", 23, *five, partial(common, equal, all_but_two)
        ),
        *(
            Shape(
                f"one point out of step, {share:g}, no margin",
                23,
                *pairs(POINTS, 1),
                partial(common, equal, np.where(NUMBER == 0, 0.0, share)),
                margin=np.nan,
            )
            for share in (0.8, 0.95)
        ),
    ]


def unequal_spreads() -> list[Shape]:
    """Return shapes with normal values, and different standard deviations of the points."""
    one = pairs(POINTS, 1)
    six_wide = partial(normal, np.where(NUMBER == 0, 6.0, 1.0))
    one_and_four = np.array([1.0, 4.0]) / np.sqrt(8.5)  # their root mean square is 1

    return [
        Shape(
            "spreads of 0.2 to 0.9 %", 23, *pairs(POINTS, 5), partial(normal, NOVELS)
        ),
        Shape("one point 6 wide", 23, *one, six_wide),
        Shape("one point 6 wide, own seeds", 23, *one, six_wide, own_seeds=True),
        Shape(
            "two points, 1 and 4 wide", 35, *pairs(2, 1), partial(normal, one_and_four)
        ),
    ]


def other_distributions() -> list[Shape]:
    """Return shapes in which the values of some points are not normally distributed."""
    five = pairs(POINTS, 5)
    better = (NUMBER % 2 == 0) & (
        NUMBER < 10
    )  # the better point of each of the five pairs
    narrow = np.where((NUMBER % 2 == 1) & (NUMBER < 10), 0.3, 1.0)

    found = [
        Shape("heavy tails (t, 3 df)", 21, *five, heavy_tails),
        Shape("5 % bad seeds", 23, *five, partial(failing, narrow, better)),
        Shape("two points bimodal", 23, *five, partial(bimodal, NUMBER < 2)),
    ]
    for sigma in (0.5, 1.0):
        name = f"skewed beside narrow, {sigma:g}"
        draw = partial(skewed, narrow, better, sigma)
        found += [
            Shape(name, 23, *five, draw),
            Shape(f"{name}, no margin", 23, *five, draw, np.nan),
            Shape(
                f"{name}, own seeds, no margin", 23, *five, draw, np.nan, own_seeds=True
            ),
        ]
    return found


def claims_of_arms() -> list[Shape]:
    """Return shapes whose claims compare more than two points."""
    half = partial(common, NOVELS, np.full(POINTS, 0.5))
    own = "arms of 4 points, own seeds"

    return [
        Shape(own, 23, *arms(), by_arm, own_seeds=True),
        Shape(f"{own}, no margin", 23, *arms(), by_arm, np.nan, own_seeds=True),
        Shape("fig1, seed effect, 0.5", 18, *figure_1(), half),
    ]


def pairs(points: int, claims: int) -> tuple[tuple[Claim, ...], Floats]:
    """Return claims that each compare two points, and the gains of all points (see `Shape`).

    Claim i is that point 2 i is better than point 2 i + 1. The remaining points are not compared.

    Args:
        points: the number of points.
        claims: the number of claims.
    """
    found, gains = [], np.zeros(points)
    for pair in range(claims):
        weights = np.zeros((1, points))
        weights[0, [2 * pair, 2 * pair + 1]] = 1, -1
        found.append(Claim(ONE, weights))
        gains[2 * pair] = 1
    return tuple(found), gains


def arms() -> tuple[tuple[Claim, ...], Floats]:
    """Return the claim that one arm has a better mean than another, and the gains of all points.

    The better arm has the points 0, 2, 4 and 6, the other arm the points 1, 3, 5 and 7. If
    `Shape.own_seeds` is True, the two arms thus have different seeds.
    """
    gains = np.where(np.arange(POINTS) % 2 == 0, 1.0, 0.0)
    weights = np.where(np.arange(POINTS) < 8, gains / 2 - 0.25, 0.0)
    return (Claim(ONE, weights[None]),), gains


def figure_1() -> tuple[tuple[Claim, ...], Floats]:
    """Return the claims of conf/experiment/fig1.yaml at demo scale, and the gains of all points.

    The points are, in order: nine standard models (three embedding sizes times three numbers of
    heads), four models with a fixed head size, two matched models and a collaborative one.
    """
    standard, fixed, others = range(9), range(9, 13), range(13, 16)
    gains = np.zeros(POINTS)
    gains[[2, 5, 8]] = -1  # the standard models with the most heads
    gains[list(fixed)] = np.arange(4) - 2
    gains[list(others)] = 1

    def rows(*differences: tuple[int, int]) -> Floats:
        weights = np.zeros((len(differences), POINTS))
        for row, (better, worse) in enumerate(differences):
            weights[row, [better, worse]] = 1, -1
        return weights

    worsens = rows(
        *((3 * size + few, 3 * size + 2) for size in range(3) for few in range(2))
    )
    improves = np.zeros((2, POINTS))
    # These weights give the increase of a fitted line from the first to the last of four points.
    improves[0, list(fixed)] = 0.3 * (2 * np.arange(4) - 3)
    improves[1, [10, 11, 12]] = -1, 0, 1
    beats = rows(*((small, rival) for small in (12, 13, 14) for rival in standard[6:]))
    equal = rows((13, 3), (14, 6), (15, 3)).mean(axis=0, keepdims=True)
    saves = np.zeros((1, POINTS))
    saves[0, list(fixed)] = -0.2, 0.1, 0.4, 0.7
    saves[0, [0, 3, 6]] = 0.17, -0.33, -0.84
    any_smaller = AnyOf([ONE, ONE])
    every_rival = All([ONE, ONE, ONE])
    return (
        Claim(All([any_smaller, any_smaller, any_smaller]), worsens),
        Claim(All([ONE, ONE]), improves),
        Claim(AnyOf([every_rival, every_rival, every_rival]), beats),
        Claim(ONE, equal),
        Claim(ONE, saves),
    ), gains


def normal(sds: Floats, random: np.random.Generator, experiments: int) -> Floats:
    """Draw normal values. `sds` has the standard deviation of each point."""
    return random.standard_normal((experiments, len(sds), SEEDS)) * sds[:, None]


def common(
    sds: Floats, shares: Floats, random: np.random.Generator, experiments: int
) -> Floats:
    """Draw normal values with a seed effect: each seed shifts all points in the same direction.

    `sds` has the standard deviation of each point. `shares` has the share of each point's variance
    that the seed effect causes.
    """
    effect = random.standard_normal((experiments, 1, SEEDS)) * np.sqrt(shares)[:, None]
    return sds[:, None] * effect + normal(
        sds * np.sqrt(1 - shares), random, experiments
    )


def by_arm(random: np.random.Generator, experiments: int) -> Floats:
    """Draw normal values with one seed effect for the even points and another for the odd ones.

    Each effect accounts for 0.8 of the variance of its points.
    """
    effects = random.standard_normal((experiments, 2, SEEDS))[:, np.arange(POINTS) % 2]
    own = normal(np.full(POINTS, np.sqrt(0.2)), random, experiments)
    values: Floats = np.sqrt(0.8) * effects + own
    return values


def in_pairs(
    correlation: float, random: np.random.Generator, experiments: int
) -> Floats:
    """Draw normal values with variance 1. Points 2 i and 2 i + 1 have this correlation."""
    values = normal(np.ones(POINTS), random, experiments)
    values[:, 1::2] *= np.sqrt(1 - correlation**2)
    values[:, 1::2] += correlation * values[:, ::2]
    return values


def heavy_tails(random: np.random.Generator, experiments: int) -> Floats:
    """Draw values of Student's t distribution with 3 degrees of freedom, scaled to variance 1."""
    values: Floats = random.standard_t(3, (experiments, POINTS, SEEDS)) / np.sqrt(3)
    return values


def bimodal(mixed: np.ndarray, random: np.random.Generator, experiments: int) -> Floats:
    """Draw normal values with a standard deviation of 0.1. At the points `mixed`, add 1 or -1.

    A random half of the seeds gets 1, the other half -1. `mixed` has a boolean for each point.
    """
    shape = (experiments, len(mixed), SEEDS)
    learned = random.random(shape) < 0.5
    values: Floats = (
        0.1 * random.standard_normal(shape) + (2.0 * learned - 1) * mixed[:, None]
    )
    return values


def skewed(
    sds: Floats,
    which: np.ndarray,
    sigma: float,
    random: np.random.Generator,
    experiments: int,
) -> Floats:
    """Draw lognormal values at the points `which`, and normal values at the others.

    The lognormal values are shifted and scaled to mean 0 and variance 1. `sigma` is the standard
    deviation of their logarithm. The normal values have the standard deviations `sds`.
    """
    values = normal(sds, random, experiments)
    drawn = np.exp(sigma * random.standard_normal(values.shape))
    mean = np.exp(sigma**2 / 2)
    scaled = (drawn - mean) / (mean * np.sqrt(np.exp(sigma**2) - 1))
    return np.where(which[:, None], scaled, values)


def failing(
    sds: Floats, which: np.ndarray, random: np.random.Generator, experiments: int
) -> Floats:
    """Draw normal values. At the points `which`, subtract 10 from a random 5 % of the seeds.

    `sds` has the standard deviation of each point, and `which` a boolean.
    """
    values = normal(sds, random, experiments)
    found: Floats = values - 10.0 * (
        (random.random(values.shape) < 0.05) & which[:, None]
    )
    return found


class Course(NamedTuple):
    """The result of one simulated experiment."""

    decided: int  # the number of decided claims
    wrong: int  # the number of wrongly decided claims
    runs: int  # the number of runs at the points that the claims compare


def play(shape: Shape, values: Floats, truths: Sequence[set[Decision]]) -> Course:
    """Decide the claims of one experiment in rounds.

    In each round, every point of an undecided claim gets one more seed.

    Args:
        shape: the experiment.
        values: the values of all seeds, of shape (points, seeds).
        truths: for each claim, its correct decisions (see `Shape.truth`).
    """
    counts = np.full(len(values), FIRST)
    seen: dict[int, Intervals] = {}
    open_claims, decided, wrong = [*range(len(shape.claims))], 0, 0

    while open_claims:
        table, left = first_seeds(values, counts), []
        claims = [shape.claims[place] for place in open_claims]
        found = iter(
            estimates(table, np.concatenate([claim.weights for claim in claims]))
        )

        for place, claim in zip(open_claims, claims, strict=True):
            own = [*itertools.islice(found, len(claim.weights))]
            newest = intervals(own, shape.levels(claim))
            seen[place] = intersection([seen.get(place, newest), newest])
            used = np.flatnonzero((claim.weights != 0).any(axis=0))
            seeds = int(counts[used].min())
            given = shape.decision(claim, seen[place])
            bimodal = is_bimodal(row[~np.isnan(row)] for row in table[used])
            if given is not Decision.UNDECIDED and not bimodal:
                decided += 1
                wrong += given not in truths[place]
            elif seeds < SEEDS and (seen[place].lows <= seen[place].highs).all():
                counts[used] = np.maximum(counts[used], seeds + 1)
                left.append(place)
        open_claims = left

    points = np.any(
        [(claim.weights != 0).any(axis=0) for claim in shape.claims], axis=0
    )
    return Course(decided, wrong, int(counts[points].sum()))


def measured(shape: Shape, effect: float, experiments: int) -> list[str]:
    """Simulate experiments of a shape with this effect. Return a row of the table."""
    random = np.random.default_rng([shape.random_seed, int(2 * effect)])
    means = effect * shape.gains
    values = shape.draw(random, experiments) + means[:, None]
    if shape.own_seeds:
        even = np.arange(len(means))[:, None] % 2 == 0
        parts = [np.where(mask, values, np.nan) for mask in (even, ~even)]
        values = np.concatenate(parts, axis=-1)
    truths = [shape.truth(claim, means) for claim in shape.claims]
    ends = [play(shape, one, truths) for one in values]
    wrong = share(np.array([one.wrong > 0 for one in ends]))
    decided = sum(one.decided for one in ends)
    runs = sum(one.runs for one in ends) / max(decided, 1)
    claims = experiments * len(shape.claims)
    words = f"{effect:g}" if effect else "none"
    return [shape.name, words, wrong, f"{decided / claims:.0%}", f"{runs:.1f}"]


def share(wrong: np.ndarray) -> str:
    """Return the percentage of True in `wrong` as text, with its upper 95 % bound in brackets."""
    hits, tried = int(wrong.sum()), len(wrong)
    upper = float(betaincinv(hits + 1, tried - hits, 0.95)) if hits < tried else 1.0
    return f"{100 * hits / tried:.2f} ({100 * upper:.2f})"


def main() -> None:
    """Simulate every shape with every effect and write the table."""
    tiny = smoke(__doc__)
    begun = time.process_time()
    rows = [
        measured(shape, effect, 5 if tiny else experiments)
        for shape, (effect, experiments) in itertools.product(
            shapes(), EXPERIMENTS.items()
        )
    ]
    simulated = table(
        ("shape", "effect", "wrong, % (bound)", "decided", "runs a claim"), rows
    )
    taken = time.process_time() - begun
    counts = ", ".join(
        f"{count} at effect {effect:g}" for effect, count in EXPERIMENTS.items()
    )
    text = f"Experiments a line: {counts}; {taken:.0f} s of one core.\n\n{simulated}\n"
    print(text, end="")
    if not tiny:
        fill(DOCUMENT, "benchmarks.decisions", text)


if __name__ == "__main__":
    main()
