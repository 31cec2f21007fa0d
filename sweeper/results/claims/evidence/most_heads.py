"""The most heads against the best of fewer: what two checks ask, at one size after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweeper.results.claims.evidence.verdict import (
    Answer,
    Evidence,
    Verdict,
    as_data,
    compared,
    decided,
    repeated,
)
from sweeper.results.table.points import Point


def most_against_fewer(evidence: Evidence, ordered: Sequence[Point], where: str) -> dict[str, Any]:
    """Whether the most heads are worse, in numbers and a sentence; `ordered` by number of heads."""
    entry: dict[str, Any] = {"verdict": Answer.UNDECIDED}
    if len(ordered) < 2 or repeated(ordered, "model.heads"):
        words = "one number of heads only" if len(ordered) < 2 else "more varies than heads"
        return entry | {"sentence": f"{where}, {words}"}
    *fewer, most = ordered
    best = evidence.best(fewer)
    # The best of several was picked, so the difference must hold for all of them together.
    worse_by = evidence.advantage(best, most, comparisons=len(fewer))
    best_heads, most_heads = best.at("model.heads") or 0.0, most.at("model.heads") or 0.0
    sentence = (
        f"{where}, {most_heads:.0f} heads have {evidence.mean(most):.4g} and "
        f"{best_heads:.0f} heads {evidence.mean(best):.4g}, {compared(worse_by.times(-1))}"
    )
    return entry | {
        "verdict": decided(worse_by),
        "best_heads": int(evidence.best(ordered).at("model.heads") or 0),
        "best_of_fewer": int(best_heads),
        "most_heads": int(most_heads),
        "metric_of_fewer": evidence.mean(best),
        "metric_of_most": evidence.mean(most),
        "worse_by": as_data(worse_by),
        "sentence": sentence,
    }


def judged(evidence: Evidence, claim: str, found: Sequence[dict[str, Any]], places: str) -> Verdict:
    """The verdict on all sizes: what each of them says, undecided where they disagree."""
    answers = {entry["verdict"] for entry in found}
    answer = answers.pop() if len(answers) == 1 else Answer.UNDECIDED
    worse = sum(entry["verdict"] == Answer.SUPPORTED for entry in found)
    sentence = (
        f"{evidence.words.capitalize()} is worse with the most heads than with fewer at {worse} of "
        f"{len(found)} {places}: "
    )
    told = "; ".join(entry.pop("sentence") for entry in found)
    whole = f"{sentence}{told}." if found else ""
    return evidence.verdict(claim, answer, whole, {places.split()[-1]: list(found)})
