"""Does the standard heuristic, head size = embedding size / heads, get worse beyond some heads?

The paper's Figure 1a and Table 1. Asked at each embedding size: the largest number of heads against
the best of the smaller ones. The claim is supported if it is worse at every embedding size.
"""

from __future__ import annotations

from sweeper.results.claims.evidence.most_heads import judged, most_against_fewer
from sweeper.results.claims.evidence.verdict import Evidence, Verdict, by_size
from sweeper.results.table.points import Point
from sweeper.results.table.table import Table


def check(table: Table, *, standard: str = "standard") -> Verdict:
    """The verdict on one arm, whose points differ in embedding size and heads."""
    evidence = Evidence(table, [standard])
    by_embedding: dict[float, list[Point]] = {}
    for point in by_size(evidence.of([standard]), "model.heads"):
        by_embedding.setdefault(point.at("model.embedding_size") or 0.0, []).append(point)
    found = [
        {"embedding_size": int(size)} | most_against_fewer(evidence, ordered, f"at {size:.0f}")
        for size, ordered in sorted(by_embedding.items())
    ]
    return judged(evidence, "standard_worsens_beyond", found, "embedding sizes")
