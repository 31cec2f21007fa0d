"""Do many small heads lose to fewer large ones where heads * head size, so all size, is equal?

What the paper's argument says beyond its tables, which change width and head size together. The
claim is supported if the smallest heads are worse than the best of the larger at every width.
"""

from __future__ import annotations

from sweeper.results.claims.evidence.most_heads import judged, most_against_fewer
from sweeper.results.claims.evidence.verdict import Evidence, Verdict, by_size
from sweeper.results.table.points import Point
from sweeper.results.table.table import Table


def check(table: Table) -> Verdict:
    """The verdict on all arms, whose points differ in heads and head size, or in width too."""
    evidence = Evidence(table, list(table.experiment["arms"]))
    by_width: dict[float, list[Point]] = {}
    for point in by_size(evidence.of(table.experiment["arms"]), "model.heads"):
        by_width.setdefault(point.at("width") or 0.0, []).append(point)
    found = [
        {"width": int(width)} | most_against_fewer(evidence, ordered, f"at {width:.0f}")
        for width, ordered in sorted(by_width.items())
    ]
    return judged(evidence, "small_heads_lose_at_equal_width", found, "widths")
