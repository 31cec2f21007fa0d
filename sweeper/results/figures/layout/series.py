"""Which points make a curve, and where they lie: numbers only, no drawing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from sweeper.results.statistics.estimates import Spread, interval
from sweeper.results.table.points import Point


@dataclass(frozen=True)
class Mark:
    """A point as it is drawn: its mean over seeds, the ends of its interval, every seed."""

    x: float
    mean: float
    ends: tuple[float, float] | None
    seeds: tuple[float, ...]
    point: Point


@dataclass(frozen=True)
class Series:
    """Points that belong together.

    Attributes:
        key: what tells it from the others of its arm, for example its number of heads.
        arm: the arm it is of.
        points: those with at least one finished run.
    """

    key: Hashable
    arm: str
    points: tuple[Point, ...]


def split(points: Iterable[Point], by: Callable[[Point], Hashable]) -> list[Series]:
    """A series for each arm and each value of `by`, in the order in which they first appear."""
    groups: dict[tuple[str, Hashable], list[Point]] = {}
    for point in points:
        if point.values:
            groups.setdefault((point.arm, by(point)), []).append(point)
    return [Series(key, arm, tuple(group)) for (arm, key), group in groups.items()]


def marks(
    points: Iterable[Point], at: Callable[[Point], float | None], spread: Spread | None
) -> list[Mark]:
    """The points that have a place `at` the x-axis, from left to right."""
    found = []
    for point in points:
        x = at(point)
        if x is not None and point.values:
            known = point.estimate(spread)
            values = tuple(point.values[seed] for seed in sorted(point.values))
            found.append(Mark(x, known.mean, interval(known), values, point))
    return sorted(found, key=lambda mark: (mark.x, mark.mean))


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float] | None:
    """Positions near the wanted ones, at least `gap` apart, within [low, high]; None if too many.

    The order stays. Each cluster that is too tight is spread out around its own middle.
    """
    if (len(wanted) - 1) * gap > high - low:
        return None
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    clusters: list[list[float]] = []  # [middle of the wanted positions, number of them]
    for index in order:
        clusters.append([min(max(wanted[index], low), high), 1])
        while len(clusters) > 1 and _overlap(clusters[-2], clusters[-1], gap):
            (middle, count), (other, more) = clusters[-2], clusters[-1]
            merged = (middle * count + other * more) / (count + more)
            reach = gap * (count + more - 1) / 2
            clusters[-2:] = [[min(max(merged, low + reach), high - reach), count + more]]
    placed = [
        middle + gap * (rank - (count - 1) / 2)
        for middle, count in clusters
        for rank in range(int(count))
    ]
    positions = [0.0] * len(wanted)
    for index, position in zip(order, placed, strict=True):
        positions[index] = position
    return positions


def _overlap(one: Sequence[float], other: Sequence[float], gap: float) -> bool:
    return other[0] - one[0] < gap * (one[1] + other[1]) / 2 - 1e-9
