"""Which points make a curve, and where they lie: numbers only, no drawing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from sweeper.results.points import Point
from sweeper.results.statistics.estimates import Spread, interval


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
    points: Iterable[Point],
    at: Callable[[Point], float | None],
    spread: Spread | None,
    back: Callable[[float], float] = float,
) -> list[Mark]:
    """The points that have a place `at` the x-axis, from left to right.

    `back` turns values back that were `bent` for means and intervals.
    """
    found = []
    for point in points:
        x = at(point)
        if x is not None and point.values:
            known = point.estimate(spread)
            values = tuple(back(point.values[seed]) for seed in sorted(point.values))
            ends = interval(known)
            drawn = ends and (back(ends[0]), back(ends[1]))
            found.append(Mark(x, back(known.mean), drawn, values, point))
    return sorted(found, key=lambda mark: (mark.x, mark.mean))
