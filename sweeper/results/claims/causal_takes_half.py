"""Does a random context under a causal mask take a head of half the size of its length n only?"""

from __future__ import annotations

from sweeper.results.claims.evidence.head_size_curve import judged
from sweeper.results.claims.evidence.verdict import Verdict
from sweeper.results.table.table import Table


def check(table: Table, *, causal: str = "causal") -> Verdict:
    """The verdict on one arm, whose points differ in sequence length n and head size."""
    words = "n / 2, rounded down"
    return judged(table, "causal_takes_half", causal, lambda length: length // 2, words)
