"""Does a random context without a mask take a head of size n - 1, and not the n of Theorem 1?"""

from sweeper.results.design import Design, Statement, curves, knee
from sweeper.results.statistics.sequential import All


def claim(design: Design, *, bidirectional: str = "bidirectional") -> Statement:
    """On one arm, whose points differ in sequence length n and head size."""
    lengths = curves("task.sequence_length", design.of(bidirectional))
    return All(tuple(fall for n, curve in lengths.items() for fall in knee(curve, round(n) - 1)))
