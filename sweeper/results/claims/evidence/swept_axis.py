"""Does a metric keep improving along one number that an arm varies? What two checks ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from sweeper.results.claims.evidence.verdict import (
    Answer,
    Evidence,
    Verdict,
    as_data,
    by_size,
    compared,
    decided,
    in_words,
    repeated,
)
from sweeper.results.statistics.estimates import monotonicity
from sweeper.results.table.columns import direction
from sweeper.results.table.points import Point


@dataclass(frozen=True)
class SweptAxis:
    """What an arm varies: the column, and how a sentence speaks of it."""

    column: str
    one: str  # a setting, with its number as {}
    several: str
    more: str

    def at(self, point: Point) -> int:
        """The number of a point."""
        return int(point.at(self.column) or 0)

    def name(self, point: Point) -> str:
        """A setting in words."""
        return self.one.format(self.at(point))


def keeps_improving(evidence: Evidence, claim: str, arm: str, axis: SweptAxis) -> Verdict:
    """The verdict on one arm, whose points differ in this one number only.

    Supported if the most is better than the least, and also than the middle of the range, so that
    the gain has not stopped half-way, and if nowhere more is worse. Not supported if somewhere more
    is worse. Each by more than its interval.
    """
    ordered = by_size(evidence.of([arm]), axis.column)
    if len(ordered) < 3 or repeated(ordered, axis.column):
        sentence = f"The claim needs three or more {axis.several}, and nothing else that varies."
        return evidence.verdict(claim, Answer.UNDECIDED, sentence, {})
    first, middle, last = ordered[0], ordered[(len(ordered) - 1) // 2], ordered[-1]
    whole = evidence.advantage(last, first, comparisons=2)
    upper = evidence.advantage(last, middle, comparisons=2)
    reversals = _reversals(evidence, ordered, axis)
    steadiness = monotonicity([list(point.values.values()) for point in ordered])
    if reversals:
        answer = Answer.NOT_SUPPORTED
    elif decided(whole) == decided(upper) == Answer.SUPPORTED:
        answer = Answer.SUPPORTED
    else:
        answer = Answer.UNDECIDED
    sentence = (
        f"{evidence.words[0].upper()}{evidence.words[1:]} goes from {evidence.mean(first):.4g} "
        f"with {axis.name(first)} to {evidence.mean(last):.4g} with {axis.name(last)}, "
        f"{compared(whole)}; from {axis.name(middle)} on it gets {compared(upper)}; {axis.more} "
        f"are worse in {len(reversals)} of {len(ordered) * (len(ordered) - 1) // 2} pairs"
        + (f", most of all {reversals[-1]['words']}" if reversals else "")
        + f"; order agreement (Somers' D) {in_words(steadiness)}."
    )
    numbers = {
        axis.column.rpartition(".")[2]: [axis.at(point) for point in ordered],
        "metric": [evidence.mean(point) for point in ordered],
        "whole_range": as_data(whole),
        "upper_half": as_data(upper),
        "order_agreement": as_data(steadiness),
        "reversals": reversals,
    }
    return evidence.verdict(claim, answer, sentence, numbers)


def _reversals(
    evidence: Evidence, ordered: Sequence[Point], axis: SweptAxis
) -> list[dict[str, Any]]:
    """The pairs in which more is worse by more than the interval, the clearest last."""
    pairs = list(combinations(ordered, 2))
    better = direction(evidence.metric)
    good = {id(point): better * evidence.mean(point) for point in ordered}
    found: list[tuple[float, int, str, Point, Point]] = []
    for fewer, more in pairs:
        if good[id(fewer)] <= good[id(more)]:
            continue  # whatever the interval is; of a long axis this leaves few pairs
        worse_by = evidence.advantage(fewer, more, comparisons=len(pairs))
        if decided(worse_by) == Answer.SUPPORTED:
            words = f"{axis.name(more)} than {axis.name(fewer)} by {in_words(worse_by)}"
            found.append((worse_by.low or 0.0, len(found), words, fewer, more))
    return [
        {"fewer": axis.at(fewer), "more": axis.at(more), "words": words}
        for _, _, words, fewer, more in sorted(found, key=lambda entry: entry[:2])
    ]
