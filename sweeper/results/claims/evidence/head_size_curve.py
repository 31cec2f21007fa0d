"""Where an error collapses: the head size from which on a context can be formed (Theorem 1).

While heads are too small the error falls by a factor of a few from one size to the next. A head
that is large enough leaves what gradient descent has not come to yet, orders of magnitude below.
So all is about logarithms here, and the knee is the first head size at which the error is below a
tenth of that before it. (Where it falls by most says less: at the knee descent is slowest.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sweeper.results.claims.evidence.verdict import Answer, Evidence, Verdict, as_data, in_words
from sweeper.results.statistics.estimates import Difference, Estimate, Spread, difference, mean
from sweeper.results.table.points import Point, seed_spread
from sweeper.results.table.table import Table

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

    def falls(self) -> dict[int, Difference]:
        """By how many orders of magnitude the error falls at a head size from the one before it.

        The intervals hold for all of them together.
        """
        pairs = [(size - 1, size) for size in self.points if size - 1 in self.points]
        return {
            size: difference(self.estimate(before), self.estimate(size), comparisons=len(pairs))
            for before, size in pairs
        }

    @property
    def knee(self) -> int | None:
        """The first head size at which the error falls by a whole order; None if it never does."""
        return next((size for size, fall in self.falls().items() if fall.value > COLLAPSE), None)


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


def judged(
    table: Table, claim: str, arm: str, expected: Callable[[int], int], words: str
) -> Verdict:
    """The verdict on whether the knees of an arm are where they are `expected`, a length given.

    Supported if all are, not supported if one is elsewhere; each fall by more than its interval.
    """
    evidence = Evidence(table, [arm])
    found = [
        _judged(curve, expected(curve.length)) for curve in head_size_curves(evidence.of([arm]))
    ]
    answers = [entry["verdict"] for entry in found]
    if Answer.NOT_SUPPORTED in answers:
        answer = Answer.NOT_SUPPORTED
    else:
        answer = Answer.SUPPORTED if set(answers) == {Answer.SUPPORTED} else Answer.UNDECIDED
    told = "; ".join(entry.pop("sentence") for entry in found)
    sentence = f"The error collapses at a head size of {words} if the claim is right: {told}."
    return evidence.verdict(claim, answer, sentence if found else "", {"lengths": found})


def _judged(curve: HeadSizeCurve, expected: int) -> dict[str, Any]:
    falls, knee = curve.falls(), curve.knee
    entry = {"length": curve.length, "expected": expected, "knee": knee}
    if expected not in falls:
        sentence = f"for n = {curve.length}, head sizes around {expected} were not measured"
        return entry | {"verdict": Answer.UNDECIDED, "sentence": sentence}
    if knee is None:
        sentence = f"for n = {curve.length} it does nowhere ({expected} expected)"
        return entry | {"verdict": Answer.UNDECIDED, "sentence": sentence}
    fall = falls[knee]
    clear = fall.low is not None and fall.low > COLLAPSE
    answer = Answer.SUPPORTED if knee == expected else Answer.NOT_SUPPORTED
    sentence = (
        f"for n = {curve.length} it does at {knee}, by {in_words(fall)} orders of magnitude "
        f"({expected} expected)"
    )
    return entry | {
        "verdict": answer if clear else Answer.UNDECIDED,
        "orders_of_magnitude": as_data(fall),
        "sentence": sentence,
    }
