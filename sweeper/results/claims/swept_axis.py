"""Does a metric keep improving along one number that an arm varies? What two checks ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from sweeper.results.claims.verdict import (
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
class Rungs:
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


def keeps_improving(evidence: Evidence, claim: str, arm: str, rungs: Rungs) -> Verdict:
    """The verdict on one arm, whose points differ in this one number only.

    Supported if the most is better than the least, and also than the middle of the range, so that
    the gain has not stopped half-way, and if nowhere more is worse. Not supported if somewhere more
    is worse. Each by more than its interval.
    """
    ladder = by_size(evidence.of([arm]), rungs.column)
    if len(ladder) < 3 or repeated(ladder, rungs.column):
        sentence = f"The claim needs three or more {rungs.several}, and nothing else that varies."
        return evidence.verdict(claim, Answer.UNDECIDED, sentence, {})
    first, middle, last = ladder[0], ladder[(len(ladder) - 1) // 2], ladder[-1]
    whole = evidence.advantage(last, first, comparisons=2)
    upper = evidence.advantage(last, middle, comparisons=2)
    reversals = _reversals(evidence, ladder, rungs)
    steadiness = monotonicity([list(point.values.values()) for point in ladder])
    if reversals:
        answer = Answer.NOT_SUPPORTED
    elif decided(whole) == decided(upper) == Answer.SUPPORTED:
        answer = Answer.SUPPORTED
    else:
        answer = Answer.UNDECIDED
    sentence = (
        f"{evidence.words[0].upper()}{evidence.words[1:]} goes from {evidence.mean(first):.4g} "
        f"with {rungs.name(first)} to {evidence.mean(last):.4g} with {rungs.name(last)}, "
        f"{compared(whole)}; from {rungs.name(middle)} on it gets {compared(upper)}; {rungs.more} "
        f"are worse in {len(reversals)} of {len(ladder) * (len(ladder) - 1) // 2} pairs"
        + (f", most of all {reversals[-1]['words']}" if reversals else "")
        + f"; order agreement (Somers' D) {in_words(steadiness)}."
    )
    numbers = {
        rungs.column.rpartition(".")[2]: [rungs.at(point) for point in ladder],
        "metric": [evidence.mean(point) for point in ladder],
        "whole_range": as_data(whole),
        "upper_half": as_data(upper),
        "order_agreement": as_data(steadiness),
        "reversals": reversals,
    }
    return evidence.verdict(claim, answer, sentence, numbers)


def _reversals(evidence: Evidence, ladder: Sequence[Point], rungs: Rungs) -> list[dict[str, Any]]:
    """The pairs in which more is worse by more than the interval, the clearest last."""
    pairs = list(combinations(ladder, 2))
    better = direction(evidence.metric)
    good = {id(point): better * evidence.mean(point) for point in ladder}
    found: list[tuple[float, int, str, Point, Point]] = []
    for fewer, more in pairs:
        if good[id(fewer)] <= good[id(more)]:
            continue  # whatever the interval is; of a long ladder this leaves few pairs
        worse_by = evidence.advantage(fewer, more, comparisons=len(pairs))
        if decided(worse_by) == Answer.SUPPORTED:
            words = f"{rungs.name(more)} than {rungs.name(fewer)} by {in_words(worse_by)}"
            found.append((worse_by.low or 0.0, len(found), words, fewer, more))
    return [
        {"fewer": rungs.at(fewer), "more": rungs.at(more), "words": words}
        for _, _, words, fewer, more in sorted(found, key=lambda entry: entry[:2])
    ]
