"""What a check says, and the comparisons that all checks make in the same way."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sweeper.results.statistics.estimates import Difference, contrast
from sweeper.results.table.columns import direction, label
from sweeper.results.table.points import Point, missing, points, seed_spread
from sweeper.results.table.table import Table


class Answer(StrEnum):
    """Which way a claim fell."""

    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Verdict:
    """What the data say of a claim.

    Attributes:
        claim: the name of the check.
        verdict: which way it fell.
        sentence: the answer in words, with its numbers and intervals.
        numbers: the same numbers as plain data.
        measure: by what it was judged, in words.
    """

    claim: str
    verdict: Answer
    sentence: str
    numbers: dict[str, Any]
    measure: str = ""


class Evidence:
    """The points a check looks at, all measured with one spread between seeds."""

    def __init__(self, table: Table, arms: Sequence[str]) -> None:
        self._table = table
        self._arms = arms
        self.metric = table.metric
        self.words = label(table.metric).partition(" (")[0]
        self.direction = direction(table.metric)
        # The spread rests on the whole experiment: the more settings, the better it is known.
        everything = points(table, table.metric)
        self._spread = seed_spread(everything)
        self._points = [point for point in everything if point.values]

    def of(self, arms: Collection[str]) -> list[Point]:
        """The points of `arms` that have at least one finished run."""
        return [point for point in self._points if point.arm in arms]

    def mean(self, point: Point) -> float:
        """The mean metric of a point."""
        return point.estimate(self._spread).mean

    def best(self, among: Collection[Point]) -> Point:
        """The point with the best mean; of equal ones the first."""
        return max(among, key=lambda point: self.direction * self.mean(point))

    def advantage(self, of: Point, over: Point, comparisons: int = 1) -> Difference:
        """How much better `of` is than `over`, in units of the metric; below 0 if it is worse."""
        return self.contrast([(1, of), (-1, over)], comparisons)

    def contrast(self, terms: Sequence[tuple[float, Point]], comparisons: int = 1) -> Difference:
        """The sum of weight * mean over `terms`, with the sign turned where lower is better."""
        known = [(weight, point.estimate(self._spread)) for weight, point in terms]
        return contrast(known, comparisons=comparisons).times(self.direction)

    def gap(self) -> str | None:
        """Why nothing can be concluded yet, as a sentence; None if everything is there."""
        absent = [arm for arm in self._arms if arm not in self._table.experiment["arms"]]
        if absent:
            return f"The experiment has no arm {', '.join(absent)}."
        reason, without, of = missing(self._table, self.metric, self._arms)
        if without:
            return f"{without} of {of} runs have no {self.words} ({reason})."
        if self._spread is None:
            return "Every setting has a single seed, so the spread between seeds is unknown."
        return None

    def verdict(
        self, claim: str, answer: Answer, sentence: str, numbers: dict[str, Any]
    ) -> Verdict:
        """The verdict, which is undecided where something is missing, whatever the rest says."""
        gap = self.gap()
        if gap is None:
            return Verdict(claim, answer, sentence, numbers)
        so_far = f"{gap} So far: {sentence}" if sentence else gap
        return Verdict(claim, Answer.UNDECIDED, so_far, numbers)


def decided(found: Difference) -> Answer:
    """Whether a difference is above 0 by more than its interval, below it, or neither."""
    if found.low is not None and found.low > 0:
        return Answer.SUPPORTED
    if found.high is not None and found.high < 0:
        return Answer.NOT_SUPPORTED
    return Answer.UNDECIDED


def in_words(found: Difference) -> str:
    """A difference and its interval, as exact as the interval is: `1.31 [0.92, 1.70]`."""
    if found.low is None or found.high is None:
        return f"{found.value:.3g} [no interval]"
    reach = (found.high - found.low) / 2
    digits = min(max(1 - math.floor(math.log10(reach)), 0), 6) if reach > 0 else 3
    return f"{found.value:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def compared(found: Difference) -> str:
    """An advantage in words: `better by 1.31 [0.92, 1.70]`, or `worse by ...`."""
    if found.value >= 0:
        return f"better by {in_words(found)}"
    return f"worse by {in_words(found.times(-1))}"


def as_data(found: Difference) -> dict[str, float | None]:
    """A difference as plain data."""
    return {"value": found.value, "low": found.low, "high": found.high}


def by_size(given: Collection[Point], column: str) -> list[Point]:
    """The points that have a number in `column`, in its order."""
    with_number = [point for point in given if point.at(column) is not None]
    return sorted(with_number, key=lambda point: point.at(column) or 0.0)


def repeated(given: Sequence[Point], column: str) -> bool:
    """Whether two points have the same number in `column`, so that something else varies too."""
    return len({point.at(column) for point in given}) < len(given)
