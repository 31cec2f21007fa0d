"""Do larger heads, as many as before, keep improving a model? The paper's Table 2(B), Figure 3b.

Parameters grow with the head size, so a gain does not say that they are best spent there.
"""

from __future__ import annotations

from sweeper.results.claims.evidence.swept_axis import SweptAxis, keeps_improving
from sweeper.results.claims.evidence.verdict import Evidence, Verdict
from sweeper.results.table.table import Table

SIZES = SweptAxis("model.head_size", "heads of {}", "head sizes", "larger heads")


def check(table: Table, *, fixed: str = "fixed") -> Verdict:
    """The verdict on one arm, whose points differ in head size only."""
    return keeps_improving(Evidence(table, [fixed]), "larger_heads_improve", fixed, SIZES)
