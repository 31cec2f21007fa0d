"""Simulated experiments that benchmarks/decisions.py judges: their points, claims and seeds.

Values are in units of the typical spread between seeds at a point; larger is better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from sweeper.results.statistics.sequential import Above, All, AnyOf, Combination, Floats

SEEDS = 30
MARGIN = 1.0


@dataclass(frozen=True)
class Claim:
    """A claim and the weights of its contrasts, (contrasts, points)."""

    holds: Combination
    weights: Floats


@dataclass(frozen=True)
class Shape:
    """An experiment to simulate.

    Attributes:
        name: what the table calls it.
        claims: all of them.
        gains: (points,), what an effect of 1 adds to the mean of each point.
        seeds: draws (experiments, points, SEEDS) values around 0.
        fixed: seeds a point of a fixed design with 80 % power for an effect of 1 at the same error.
    """

    name: str
    claims: tuple[Claim, ...]
    gains: Floats
    seeds: Callable[[np.random.Generator, int], Floats]
    fixed: int = 24


# One four times the other, 1 in the root mean square.
_UNEQUAL = np.array([1.0, 4.0]) / np.sqrt(8.5)


def shapes() -> list[Shape]:
    """All shapes, the one that prices are held against first."""
    points = 16
    pairs = _pairs(points, 5)
    plain = np.ones(points)
    # Of the novels at d = 64 spreads of 0.2 to 0.9 % were measured, in no order.
    unequal = np.geomspace(0.2, 0.9, points)[np.random.default_rng(7).permutation(points)] / 0.45
    # And elsewhere 0.95 %, most of it from the two widest of the models.
    wide = np.where(np.arange(points) < 2, 3.0, 1.0)
    claims, gains = _figure_1()
    return [
        Shape("five pairs of 16 points", *pairs, partial(_normal, plain)),
        Shape("spreads of 0.2 to 0.9 %", *pairs, partial(_normal, unequal)),
        Shape("two points three times as wide", *pairs, partial(_normal, wide)),
        Shape("heavy tails (t, 3 df)", *pairs, partial(_heavy, plain)),
        Shape("two heaps, half learned", *pairs, partial(_heaps, plain)),
        Shape("two points in two heaps", *pairs, partial(_heaps, np.floor(wide / 3))),
        Shape("fig1 at demo scale", claims, gains, partial(_normal, plain)),
        Shape("fig1, spreads of 0.2 to 0.9 %", claims, gains, partial(_normal, unequal)),
        Shape(
            "two points, 1 and 4 wide, one claim",
            *_pairs(2, 1),
            partial(_normal, _UNEQUAL),
            fixed=17,
        ),
    ]


def _pairs(points: int, claims: int) -> tuple[tuple[Claim, ...], Floats]:
    """Claims that one point of two is better, and other points that no claim is about."""
    found, gains = [], np.zeros(points)
    for pair in range(claims):
        weights = np.zeros((1, points))
        weights[0, [2 * pair, 2 * pair + 1]] = 1, -1
        found.append(Claim(Above(0), weights))
        gains[2 * pair] = 1
    return tuple(found), gains


def _figure_1() -> tuple[tuple[Claim, ...], Floats]:
    """The points and five claims of conf/experiment/fig1.yaml at demo scale.

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


def _normal(spreads: Floats, random: np.random.Generator, experiments: int) -> Floats:
    return random.standard_normal((experiments, len(spreads), SEEDS)) * spreads[:, None]


def _heavy(spreads: Floats, random: np.random.Generator, experiments: int) -> Floats:
    shape = (experiments, len(spreads), SEEDS)
    values: Floats = random.standard_t(3, shape) / np.sqrt(3) * spreads[:, None]
    return values


def _heaps(mixed: Floats, random: np.random.Generator, experiments: int) -> Floats:
    """Half the seeds of these points learn, and are then 2 better; elsewhere all seeds do alike."""
    shape = (experiments, len(mixed), SEEDS)
    learned = random.random(shape) < 0.5
    values: Floats = 0.1 * random.standard_normal(shape) + (2.0 * learned - 1) * mixed[:, None]
    return values
