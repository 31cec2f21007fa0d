"""Do larger heads recall more? Judged between the smallest and the largest head of an arm."""

from __future__ import annotations

from sweeper.results.claims.evidence.verdict import (
    Answer,
    Evidence,
    Verdict,
    as_data,
    by_size,
    compared,
    decided,
)
from sweeper.results.table.table import Table

NAME = "larger_heads_recall_more"


def check(table: Table, *, heads: str = "heads") -> Verdict:
    """The verdict on one arm, whose points differ in head size only."""
    evidence = Evidence(table, [heads])
    points = by_size(evidence.of([heads]), "model.head_size")
    if len(points) < 2:
        return evidence.verdict(NAME, Answer.UNDECIDED, "The claim needs two head sizes.", {})
    smallest, largest = points[0], points[-1]
    found = evidence.advantage(largest, smallest)
    sentence = f"The largest head ({largest.name}) is {compared(found)} than {smallest.name}."
    return evidence.verdict(NAME, decided(found), sentence, as_data(found))
