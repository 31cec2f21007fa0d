"""Does a random context under a causal mask take a head of half the size of its length n only?"""

from sweeper.results.design import Design, Statement, curves, knee
from sweeper.results.statistics.sequential import All


def claim(design: Design, *, causal: str = "causal") -> Statement:
    """On one arm, whose points differ in sequence length n and head size; half is rounded down."""
    lengths = curves("task.sequence_length", design.of(causal))
    return All(tuple(fall for n, curve in lengths.items() for fall in knee(curve, round(n) // 2)))
