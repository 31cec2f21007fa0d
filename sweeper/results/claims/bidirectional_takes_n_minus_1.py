"""Does a random context without a mask take a head of size n - 1, and not the n of Theorem 1?"""

from __future__ import annotations

from sweeper.results.claims.evidence.head_size_curve import judged
from sweeper.results.claims.evidence.verdict import Verdict
from sweeper.results.table.table import Table


def check(table: Table, *, bidirectional: str = "bidirectional") -> Verdict:
    """The verdict on one arm, whose points differ in sequence length n and head size."""
    claim = "bidirectional_takes_n_minus_1"
    return judged(table, claim, bidirectional, lambda length: length - 1, "n - 1")
