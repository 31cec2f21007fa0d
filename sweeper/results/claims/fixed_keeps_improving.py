"""Does a fixed head size keep improving with the number of heads?

The paper's Figure 1, Tables 2(A) and 3, and section 4.3.
"""

from __future__ import annotations

from sweeper.results.claims.evidence.swept_axis import SweptAxis, keeps_improving
from sweeper.results.claims.evidence.verdict import Evidence, Verdict
from sweeper.results.table.table import Table

HEADS = SweptAxis("model.heads", "{} heads", "numbers of heads", "more heads")


def check(table: Table, *, fixed: str = "fixed") -> Verdict:
    """The verdict on one arm, whose points differ in heads only."""
    return keeps_improving(Evidence(table, [fixed]), "fixed_keeps_improving", fixed, HEADS)
