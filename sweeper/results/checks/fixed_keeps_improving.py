"""Does a fixed head size keep improving with the number of heads?

The paper's Figure 1 and section 4.3. Supported if the most heads are better than the fewest, and
also than the middle of the range, so that the gain has not stopped half-way, and if nowhere more
heads are worse. Not supported if somewhere more heads are worse. Each by more than its interval.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

from sweeper.results.points import Point
from sweeper.results.statistics import monotonicity
from sweeper.results.table import Table
from sweeper.results.verdict import (
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

CLAIM = "fixed_keeps_improving"


def check(table: Table, *, fixed: str = "fixed") -> Verdict:
    """The verdict on one arm, whose points differ in heads only."""
    evidence = Evidence(table, [fixed])
    ladder = by_size(evidence.of([fixed]), "model.heads")
    if len(ladder) < 3 or repeated(ladder, "model.heads"):
        sentence = "The claim needs three or more numbers of heads, and nothing else that varies."
        return evidence.verdict(CLAIM, Answer.UNDECIDED, sentence, {})
    first, middle, last = ladder[0], ladder[(len(ladder) - 1) // 2], ladder[-1]
    whole = evidence.advantage(last, first, comparisons=2)
    upper = evidence.advantage(last, middle, comparisons=2)
    reversals = _reversals(evidence, ladder)
    steadiness = monotonicity([list(point.values.values()) for point in ladder])
    if reversals:
        answer = Answer.NOT_SUPPORTED
    elif decided(whole) == decided(upper) == Answer.SUPPORTED:
        answer = Answer.SUPPORTED
    else:
        answer = Answer.UNDECIDED
    sentence = (
        f"{evidence.words.capitalize()} goes from {evidence.mean(first):.4g} with {_heads(first)} "
        f"heads to {evidence.mean(last):.4g} with {_heads(last)}, {compared(whole)}; "
        f"from {_heads(middle)} heads on it gets {compared(upper)}; more heads are worse in "
        f"{len(reversals)} of {len(ladder) * (len(ladder) - 1) // 2} pairs"
        + (f", most of all {reversals[-1]['words']}" if reversals else "")
        + f"; order agreement (Somers' D) {in_words(steadiness)}."
    )
    numbers = {
        "heads": [_heads(point) for point in ladder],
        "metric": [evidence.mean(point) for point in ladder],
        "whole_range": as_data(whole),
        "upper_half": as_data(upper),
        "order_agreement": as_data(steadiness),
        "reversals": reversals,
    }
    return evidence.verdict(CLAIM, answer, sentence, numbers)


def _reversals(evidence: Evidence, ladder: list[Point]) -> list[dict[str, Any]]:
    """The pairs in which more heads are worse by more than the interval, the clearest last."""
    pairs = list(combinations(ladder, 2))
    found: list[tuple[float, int, str, Point, Point]] = []
    for fewer, more in pairs:
        worse_by = evidence.advantage(fewer, more, comparisons=len(pairs))
        if decided(worse_by) == Answer.SUPPORTED:
            words = f"{_heads(more)} than {_heads(fewer)} by {in_words(worse_by)}"
            found.append((worse_by.low or 0.0, len(found), words, fewer, more))
    return [
        {"fewer": _heads(fewer), "more": _heads(more), "words": words}
        for _, _, words, fewer, more in sorted(found, key=lambda entry: entry[:2])
    ]


def _heads(point: Point) -> int:
    return int(point.at("model.heads") or 0)
