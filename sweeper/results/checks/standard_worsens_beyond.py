"""Does the standard heuristic, head size = embedding size / heads, get worse beyond some heads?

The paper's Figure 1a and Table 1. Asked at each embedding size: the largest number of heads against
the best of the smaller ones. The claim is supported if it is worse at every embedding size.
"""

from __future__ import annotations

from typing import Any

from sweeper.results.points import Point
from sweeper.results.table import Table
from sweeper.results.verdict import (
    Answer,
    Evidence,
    Verdict,
    as_data,
    by_size,
    compared,
    decided,
    repeated,
)


def check(table: Table, *, standard: str = "standard") -> Verdict:
    """The verdict on one arm, whose points differ in embedding size and heads."""
    evidence = Evidence(table, [standard])
    found = []
    by_embedding: dict[float, list[Point]] = {}
    for point in by_size(evidence.of([standard]), "model.heads"):
        by_embedding.setdefault(point.at("model.embedding_size") or 0.0, []).append(point)
    for embedding_size, ladder in sorted(by_embedding.items()):
        found.append(_at_one_size(evidence, embedding_size, ladder))
    answers = {entry["verdict"] for entry in found}
    answer = answers.pop() if len(answers) == 1 else Answer.UNDECIDED
    worse = sum(entry["verdict"] == Answer.SUPPORTED for entry in found)
    sentence = (
        f"{evidence.words.capitalize()} is worse with the most heads than with fewer at {worse} of "
        f"{len(found)} embedding sizes: "
        + "; ".join(entry.pop("sentence") for entry in found)
        + "."
        if found
        else ""
    )
    return evidence.verdict("standard_worsens_beyond", answer, sentence, {"sizes": found})


def _at_one_size(evidence: Evidence, embedding_size: float, ladder: list[Point]) -> dict[str, Any]:
    entry: dict[str, Any] = {"embedding_size": int(embedding_size), "verdict": Answer.UNDECIDED}
    if len(ladder) < 2 or repeated(ladder, "model.heads"):
        words = "one number of heads only" if len(ladder) < 2 else "more varies than heads"
        return entry | {"sentence": f"at {embedding_size:.0f}, {words}"}
    *fewer, most = ladder
    best = evidence.best(fewer)
    # The best of several was picked, so the difference must hold for all of them together.
    worse_by = evidence.advantage(best, most, comparisons=len(fewer))
    best_heads, most_heads = best.at("model.heads") or 0.0, most.at("model.heads") or 0.0
    most_over_best = evidence.advantage(most, best, comparisons=len(fewer))
    sentence = (
        f"at {embedding_size:.0f}, {most_heads:.0f} heads have {evidence.mean(most):.4g} and "
        f"{best_heads:.0f} heads {evidence.mean(best):.4g}, {compared(most_over_best)}"
    )
    return entry | {
        "verdict": decided(worse_by),
        "best_heads": int(evidence.best(ladder).at("model.heads") or 0),
        "best_of_fewer": int(best_heads),
        "most_heads": int(most_heads),
        "metric_of_fewer": evidence.mean(best),
        "metric_of_most": evidence.mean(most),
        "worse_by": as_data(worse_by),
        "sentence": sentence,
    }
