"""What differs between two tables of the same points: seed by seed where they share seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeper.results.claims.evidence.measurements import Measurements
from sweeper.results.claims.evidence.verdict import Found, Verdict
from sweeper.results.judge import verdicts_on
from sweeper.results.statistics.estimates import LEVEL, Estimate, Spread, estimate, interval, pooled
from sweeper.results.table.columns import direction
from sweeper.results.table.measures import Measure, measures
from sweeper.results.table.points import Point
from sweeper.results.table.table import Table


@dataclass(frozen=True)
class Differences:
    """By one measure.

    Attributes:
        points: how many both tables have a value of.
        same: of the seeds that these share, how many have equal values.
        shared: how many seeds that are.
        found: the second less the first where they differ, as goodness; all intervals hold at once.
    """

    measure: str
    points: int
    same: int
    shared: int
    found: Sequence[Found]


def differences(one: Table, other: Table) -> list[Differences]:
    """By each measure that both tables show."""
    known = {measure: measure for measure in measures(other)}
    return [_by(measure, one, other) for measure in measures(one) if measure in known]


def flipped(one: Table, other: Table) -> list[tuple[Verdict, Verdict]]:
    """The claims of both tables that have another answer in the second."""
    after = {(verdict.claim, verdict.measure): verdict for verdict in verdicts_on(other)}
    pairs = [(before, after.get((before.claim, before.measure))) for before in verdicts_on(one)]
    return [(a, b) for a, b in pairs if b is not None and a.verdict is not b.verdict]


def _by(measure: Measure, one: Table, other: Table) -> Differences:
    ratios = Measurements(one, measure.metric).ratios
    pairs = [
        (f"{a.arm} {a.name}".strip(), _scaled(a, measure, ratios), _scaled(b, measure, ratios))
        for a, b in _pairs(measure.points(one), measure.points(other))
    ]
    pairs = [(name, a, b) for name, a, b in pairs if a and b]
    seeds = [(a[seed], b[seed]) for _, a, b in pairs for seed in a.keys() & b.keys()]
    changed = [(name, a, b) for name, a, b in pairs if _differ(a, b)]
    return Differences(
        measure.words,
        len(pairs),
        sum(a == b for a, b in seeds),
        len(seeds),
        _found(changed, ratios),
    )


def _pairs(one: Sequence[Point], other: Sequence[Point]) -> list[tuple[Point, Point]]:
    by_name = {(point.arm, point.name): point for point in other}
    own = [(point, by_name.get((point.arm, point.name))) for point in one]
    return [(a, b) for a, b in own if b is not None]


def _scaled(point: Point, measure: Measure, ratios: bool) -> dict[int, float]:
    """Its values by seed, larger being better, as claims judge them."""
    better, values = direction(measure.metric), point.values
    if ratios:
        values = {seed: math.log(value) for seed, value in values.items() if value > 0}
    return {seed: better * value for seed, value in values.items()}


Pair = tuple[str, Mapping[int, float], Mapping[int, float]]


def _differ(a: Mapping[int, float], b: Mapping[int, float]) -> bool:
    """Whether a seed that both have differs; where they share none, whether any does."""
    shared = a.keys() & b.keys()
    return any(a[seed] != b[seed] for seed in shared) if shared else a != b


def _found(pairs: Sequence[Pair], ratios: bool) -> list[Found]:
    shared = {name: [b[seed] - a[seed] for seed in a if seed in b] for name, a, b in pairs}
    by_seed = pooled(shared.values())
    apart = pooled([list(side.values()) for _, a, b in pairs for side in (a, b)])
    found = []
    for name, a, b in pairs:
        own = shared[name]
        known = estimate(own, by_seed) if own else _apart(a, b, apart)
        ends = interval(known, 1 - (1 - LEVEL) / len(pairs)) or (-math.inf, math.inf)
        found.append(Found(name, known.mean, *ends, ratios))
    return found


def _apart(a: Mapping[int, float], b: Mapping[int, float], spread: Spread | None) -> Estimate:
    """The difference of the means of two groups that share no seed, as of one value."""
    one, other = (estimate(list(side.values()), spread) for side in (a, b))
    mean = other.mean - one.mean
    if one.spread is None or other.spread is None:
        return Estimate(mean, 1, None)
    squares = one.spread.sd**2 / one.n + other.spread.sd**2 / other.n
    return Estimate(mean, 1, Spread(math.sqrt(squares), min(one.spread.df, other.spread.df)))
