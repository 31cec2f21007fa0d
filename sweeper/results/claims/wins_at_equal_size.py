"""Does an arm win where both have the same parameters? Figures 1 and 3a: against the standard one.

Every point that was matched is compared with the point it was matched to, seed by seed.
"""

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
)
from sweeper.results.statistics.estimates import (
    Difference,
    Estimate,
    Spread,
    interval,
    mean,
    paired,
    pooled,
    seed_by_seed,
)
from sweeper.results.table.points import Point, points
from sweeper.results.table.table import Table

CLAIM = "wins_at_equal_size"


def check(table: Table, *, standard: str = "standard") -> Verdict:
    """The verdict on all pairs with one point in `standard`; the mean over the pairs decides.

    In an experiment without such an arm the rival is the one whose points are matched.
    """
    evidence = Evidence(table, list(table.experiment["arms"]))
    every = points(table, table.metric)
    matched = [point.arm for point in every if point.cells.get("matched_to")]
    rival = standard if standard in table.experiment["arms"] else next(iter(matched), standard)
    pairs = _pairs(every, rival)
    sign = evidence.direction
    found = paired(*((other.values, own.values) for own, other in pairs))
    if found is None:
        sentence = f"No point of {rival} is matched to another, or another to it."
        return evidence.verdict(CLAIM, Answer.UNDECIDED, sentence, {})
    advantage = found.times(sign)
    spread = pooled(seed_by_seed(other.values, own.values) for own, other in pairs)
    each = [_entry(own, other, spread, sign) for own, other in pairs]
    better = sum(entry["advantage"]["value"] > 0 for entry in each)
    sentence = (
        f"Seed by seed over {len(pairs)} pairs of equal size, {evidence.words} is on average "
        f"{compared(advantage)} than with {table.label(rival)}; better in {better} of "
        f"{len(pairs)}: " + "; ".join(entry.pop("words") for entry in each) + "."
    )
    numbers = {"mean": as_data(advantage), "pairs": each}
    return evidence.verdict(CLAIM, decided(advantage), sentence, numbers)


def _pairs(every: Sequence[Point], rival: str) -> list[tuple[Point, Point]]:
    """(rival, its partner), where both have seeds in common and are not the same runs."""
    by_name = {f"{point.arm} {point.name}".strip(): point for point in every}
    found = []
    for point in every:
        target = by_name.get(str(point.cells.get("matched_to")))
        if target is None or (point.arm == rival) == (target.arm == rival):
            continue
        own, other = (point, target) if point.arm == rival else (target, point)
        if own.values.keys() & other.values.keys() and own.runs != other.runs:
            found.append((own, other))
    return found


def _entry(own: Point, other: Point, spread: Spread | None, sign: int) -> dict[str, Any]:
    """One pair, its interval from the spread of all pairs."""
    values = seed_by_seed(other.values, own.values)
    known = Estimate(mean(values), len(values), spread)
    advantage = Difference(known.mean, *(interval(known) or (None, None))).times(sign)
    return {
        "rival": own.name,
        "other": other.name,
        "other_arm": other.arm,
        "advantage": as_data(advantage),
        "words": f"{other.name} against {own.name}, {compared(advantage)}",
    }
