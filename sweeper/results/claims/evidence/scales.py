"""An experiment whose points are of several scales, seen one scale at a time.

Points of one `trainer.steps` are one scale. A claim is asked there of these points alone, so it
has an effect at each scale; it is judged there as in an experiment of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite

from sweeper.results.claims.evidence.decision import Measurements, Question
from sweeper.results.claims.evidence.design import Unanswerable, at, curves
from sweeper.results.points import Point, points
from sweeper.results.statistics.estimates import mean
from sweeper.results.table import Table
from sweeper.store import registry

STEPS = "trainer.steps"


@dataclass(frozen=True)
class Effect:
    """What a claim came to at one scale, positive where it is right.

    Attributes:
        flops: of a whole training, the mean over the points of the scale.
        value, low, high: the contrast that decides it; on the scale that is judged.
    """

    flops: float
    value: float
    low: float
    high: float


def flops(scale: Sequence[Point]) -> float:
    """Training FLOPs of a scale's models, per position of a batch: their mean, planned or done."""
    return mean([at(point, STEPS) * at(point, "flops_per_token") for point in scale])


def scales(given: Sequence[Point]) -> list[list[Point]]:
    """The points of each scale, the cheapest first."""
    return sorted(curves(STEPS, given).values(), key=flops)


def effects(table: Table, claim: str, **roles: str) -> list[Effect]:
    """What a claim came to at each scale that can answer it and has three seeds of its points."""
    ask = registry.function(registry.CLAIMS, claim, "scaling", "claim")
    found = []
    for scale in _scales_of(table):
        names = {(point.arm, point.name) for point in scale}
        rows = [row for row in table.rows if (row["arm"], row["point"] or "") in names]
        measured = Measurements(replace(table, rows=rows), table.metric)
        with suppress(Unanswerable):
            asked = Question(claim, "", ask(measured.design(), **roles), measured)
            own = asked.weighed.deciding
            if isfinite(own.low) and isfinite(own.high):
                found.append(Effect(_trained(scale), own.value, own.low, own.high))
    return found


def _trained(scale: Sequence[Point]) -> float:
    """The mean over points that are done."""
    done = [point for point in scale if point.at("tokens_seen") is not None]
    return mean([at(point, "tokens_seen") * at(point, "flops_per_token") for point in done])


def _scales_of(table: Table) -> list[list[Point]]:
    try:
        return scales(points(table, table.metric))
    except Unanswerable:
        return []
