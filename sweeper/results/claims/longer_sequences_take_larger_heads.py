"""Is a larger head worth more where sequences are longer? What Theorem 1 implies of its n.

The gain from the smallest heads to the largest, at the longest sequence against the shortest: a
difference of differences, so what a longer context is worth by itself cancels out.
"""

from __future__ import annotations

from sweeper.results.claims.evidence.verdict import (
    Answer,
    Evidence,
    Verdict,
    as_data,
    by_size,
    decided,
    in_words,
)
from sweeper.results.table.points import Point
from sweeper.results.table.table import Table

CLAIM = "longer_sequences_take_larger_heads"
LENGTH, HEAD_SIZE = "task.sequence_length", "model.head_size"


def check(table: Table, *, heads: str = "heads") -> Verdict:
    """The verdict on one arm, whose points differ in sequence length and head size."""
    evidence = Evidence(table, [heads])
    curves: dict[int, dict[int, Point]] = {}
    for point in by_size(evidence.of([heads]), HEAD_SIZE):
        curve = curves.setdefault(int(point.at(LENGTH) or 0), {})
        curve[int(point.at(HEAD_SIZE) or 0)] = point
    shortest, longest = min(curves, default=0), max(curves, default=0)
    shared = sorted(curves.get(shortest, {}).keys() & curves.get(longest, {}).keys())
    if shortest == longest or len(shared) < 2:
        sentence = "The claim needs two sequence lengths with two head sizes each."
        return evidence.verdict(CLAIM, Answer.UNDECIDED, sentence, {})
    small, large = shared[0], shared[-1]
    gains = {n: evidence.advantage(curves[n][large], curves[n][small]) for n in (shortest, longest)}
    more = evidence.contrast(
        [
            (1, curves[longest][large]),
            (-1, curves[longest][small]),
            (-1, curves[shortest][large]),
            (1, curves[shortest][small]),
        ]
    )
    told = ", ".join(f"{in_words(gain)} at n = {n}" for n, gain in gains.items())
    sentence = (
        f"From heads of {small} to heads of {large}, {evidence.words} improves by {told}; at the "
        f"longer length by {in_words(more)} more."
    )
    numbers = {
        "head_sizes": shared,
        "gains": {str(n): as_data(gain) for n, gain in gains.items()},
        "more_at_longest": as_data(more),
    }
    return evidence.verdict(CLAIM, decided(more), sentence, numbers)
