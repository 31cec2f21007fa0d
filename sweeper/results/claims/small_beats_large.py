"""Does a model with a small embedding and heads of a fixed size beat the largest standard model?

The paper's Figure 1b, in its strict form: the rival is the best standard model at the largest
embedding size, and only models with a smaller embedding and no more parameters in total compete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweeper.results.claims.evidence.verdict import (
    Answer,
    Evidence,
    Verdict,
    as_data,
    by_size,
    compared,
    decided,
)
from sweeper.results.statistics.estimates import Difference, interpolate, paired
from sweeper.results.table.points import Point
from sweeper.results.table.table import Table
from sweeper.store.numbers import short

CLAIM = "small_beats_large"
# Heads are whole numbers, so a model matched to the rival may be larger by a hair.
SAME_SIZE = 1.01


def check(
    table: Table, *, standard: str = "standard", fixed: str = "fixed", matched: str = "matched"
) -> Verdict:
    """The verdict on the points of `fixed`, and of `matched` if the experiment has it."""
    small = [fixed, matched] if matched in table.experiment["arms"] else [fixed]
    evidence = Evidence(table, [standard, *small])
    standards = by_size(evidence.of([standard]), "model.embedding_size")
    if not standards:
        return evidence.verdict(CLAIM, Answer.UNDECIDED, "", {})
    largest = standards[-1].at("model.embedding_size") or 0.0
    rival = evidence.best([p for p in standards if p.at("model.embedding_size") == largest])
    by_params = by_size(evidence.of(small), "params_total")
    smaller = [p for p in by_params if (p.at("model.embedding_size") or largest) < largest]
    limit = (rival.at("params_total") or 0.0) * SAME_SIZE
    strict = [point for point in smaller if (point.at("params_total") or 0.0) <= limit]
    numbers: dict[str, Any] = {"rival": _described(evidence, rival)}
    sentence = (
        f"The best standard model of embedding size {largest:.0f} ({_model(rival)}) has "
        f"{evidence.words} {evidence.mean(rival):.4g}; "
    )
    if not strict:
        sentence += "no model with fixed head size and a smaller embedding has as few parameters."
        return evidence.verdict(CLAIM, Answer.UNDECIDED, sentence, numbers)
    advantages = [evidence.advantage(p, rival, comparisons=len(strict)) for p in strict]
    numbers |= {
        "tested": [
            _described(evidence, point) | {"advantage": as_data(found)}
            for point, found in zip(strict, advantages, strict=True)
        ],
        "at_equal_size": _at_equal_size(evidence, standards, smaller),
    }
    answer, words, chosen = _answer(evidence, strict, advantages)
    seed_by_seed = paired((chosen.values, rival.values))
    numbers["chosen"] = _described(evidence, chosen)
    numbers["difference_seed_by_seed"] = seed_by_seed and as_data(seed_by_seed)
    return evidence.verdict(CLAIM, answer, sentence + words, numbers)


def _answer(
    evidence: Evidence, strict: Sequence[Point], advantages: Sequence[Difference]
) -> tuple[Answer, str, Point]:
    """The answer, its words, and the model they are about."""
    among = f"{len(strict)} with a smaller embedding and no more parameters"
    for point, found in zip(strict, advantages, strict=True):  # the smallest first
        if decided(found) == Answer.SUPPORTED:
            words = f"of {among}, the smallest that beats it is {_told(evidence, point, found)}"
            return Answer.SUPPORTED, words, point
    best = evidence.best(strict)
    found = advantages[list(strict).index(best)]
    words = f"the best of {among} is {_told(evidence, best, found)}"
    all_worse = all(decided(entry) == Answer.NOT_SUPPORTED for entry in advantages)
    return Answer.NOT_SUPPORTED if all_worse else Answer.UNDECIDED, words, best


def _at_equal_size(
    evidence: Evidence, standards: Sequence[Point], smaller: Sequence[Point]
) -> list[dict[str, float]]:
    """At each embedding size: the best standard model against the fixed curve at its parameters."""
    curve = [(point.at("params_total") or 0.0, evidence.mean(point)) for point in smaller]
    found = []
    for embedding_size in sorted({point.at("model.embedding_size") or 0.0 for point in standards}):
        same = [p for p in standards if p.at("model.embedding_size") == embedding_size]
        best = evidence.best(same)
        params = best.at("params_total") or 0.0
        fixed = interpolate(curve, params)
        if fixed is not None:
            entry = {"embedding_size": embedding_size, "params_total": params}
            found.append(entry | {"standard": evidence.mean(best), "fixed": fixed})
    return found


def _described(evidence: Evidence, point: Point) -> dict[str, Any]:
    columns = ("model.embedding_size", "model.heads", "model.head_size", "params_total")
    cells = {column: point.cells.get(column) for column in columns}
    return {"arm": point.arm, **cells, "metric": evidence.mean(point), "seeds": len(point.values)}


def _model(point: Point) -> str:
    heads, size = point.at("model.heads") or 0.0, point.at("model.head_size") or 0.0
    return f"{heads:.0f} heads of {size:.0f}, {short(point.at('params_total') or 0.0)} parameters"


def _told(evidence: Evidence, point: Point, found: Difference) -> str:
    return f"{_model(point)}, with {evidence.mean(point):.4g}, {compared(found)}."
