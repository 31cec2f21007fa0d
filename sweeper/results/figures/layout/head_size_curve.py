"""Where an error collapses: the head size from which on a context can be formed (Theorem 1).

While heads are too small the error falls by a factor of a few from one size to the next. A head
that is large enough leaves what gradient descent has not come to yet, orders of magnitude below.
So all is about logarithms here, and the knee is the first head size at which the error is below a
tenth of that before it. (Where it falls by most says less: at the knee descent is slowest.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sweeper.results.statistics.estimates import Estimate, Spread, mean
from sweeper.results.table.points import Point, seed_spread

COLLAPSE = 1.0  # orders of magnitude
LENGTH, HEAD_SIZE = "task.sequence_length", "model.head_size"


@dataclass(frozen=True)
class HeadSizeCurve:
    """The points of one arm and sequence length by head size, with log10 of the error as values."""

    arm: str
    length: int
    points: dict[int, Point]
    spread: Spread | None

    def estimate(self, size: int) -> Estimate:
        """The mean at a head size; its spread is that of all points, in orders of magnitude."""
        values = list(self.points[size].values.values())
        return Estimate(mean(values), len(values), self.spread)

    @property
    def knee(self) -> int | None:
        """The first head size at which the error falls by a whole order; None if it never does."""
        for size in self.points:
            before = self.points.get(size - 1)
            if before is not None:
                fall = self.estimate(size - 1).mean - self.estimate(size).mean
                if fall > COLLAPSE:
                    return size
        return None


def head_size_curves(points: Iterable[Point]) -> list[HeadSizeCurve]:
    """The curves of points whose values are errors above 0, the shortest sequence first."""
    logs = [
        replace(point, values={seed: math.log10(value) for seed, value in point.values.items()})
        for point in points
        if point.values and min(point.values.values()) > 0
    ]
    spread = seed_spread(logs)
    found: dict[tuple[str, int], dict[int, Point]] = {}
    for point in logs:
        length, size = point.at(LENGTH), point.at(HEAD_SIZE)
        if length is not None and size is not None:
            found.setdefault((point.arm, int(length)), {})[int(size)] = point
    return [
        HeadSizeCurve(arm, length, dict(sorted(by_size.items())), spread)
        for (arm, length), by_size in sorted(found.items(), key=lambda item: item[0][1])
    ]
