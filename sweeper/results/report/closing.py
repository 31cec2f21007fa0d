"""How the interval of each contrast closed, round by round, for the page to draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sweeper.results.claims.evidence.decision import Measurements
from sweeper.results.claims.evidence.verdict import Verdict
from sweeper.results.points import measures
from sweeper.results.table import Table

_SHOWN = 6  # contrasts of a claim


def closing(table: Table, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """For each claim its contrasts, each with what was known after every round; none of no rounds.

    A step is [value, low, high], in per cent where ratios are judged; None for what is not known.
    """
    rounds = table.provenance.get("rounds") or []
    metrics = {measure.words: measure.metric for measure in measures(table)}
    asked = [one for one in verdicts if rounds and one.numbers]
    return [_closing(one, rounds, Measurements(table, metrics[one.measure])) for one in asked]


def _closing(
    verdict: Verdict, rounds: Sequence[Mapping[str, Any]], measured: Measurements
) -> dict[str, Any]:
    last = verdict.numbers["contrasts"][:_SHOWN]
    history = [*(_of(before["verdicts"], verdict) for before in rounds), last]
    size = measured.margin.size if measured.margin else None
    return {
        "claim": verdict.claim,
        "measure": verdict.measure,
        "answer": verdict.answer,
        "margin": size and [_end(end, measured.ratios) for end in (-size, size)],
        "unit": " %" if measured.ratios else "",
        "contrasts": [
            {
                "words": contrast["words"],
                "steps": [
                    [_end(step[place][key], measured.ratios) for key in ("value", "low", "high")]
                    for step in history
                    if place < len(step)
                ],
            }
            for place, contrast in enumerate(last)
        ],
    }


def _of(verdicts: Sequence[Mapping[str, Any]], verdict: Verdict) -> Sequence[Mapping[str, Any]]:
    """The contrasts of the same claim in an earlier round."""
    asked = (verdict.claim, verdict.measure)
    same = (one["contrasts"] for one in verdicts if (one["claim"], one["measure"]) == asked)
    return next(same, ())


def _end(value: float | None, ratios: bool) -> float | None:
    return 100 * math.expm1(min(value, 100.0)) if ratios and value is not None else value
