"""Do heads of a fixed size reach the loss of the standard heuristic with fewer parameters?

The paper's Figures 1 and 4 read sideways. Straight lines of loss over the logarithm of parameters
are laid through both arms and read at the largest size that both have: where one is lower there, it
has the other's loss with fewer. The standard arm is asked at every number of heads that it holds as
it grows, the best of them included.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.results.claims.evidence.design import (
    All,
    Contrast,
    Design,
    Statement,
    Unanswerable,
    at,
    curves,
    line_at,
)
from sweeper.results.table.points import Point


def claim(design: Design, *, standard: str = "standard", fixed: str = "fixed") -> Statement:
    """On two arms."""
    if design.metric.rpartition("/")[2] not in ("loss", "perplexity", "perplexity_per_word"):
        raise Unanswerable("The claim is about a loss.")
    return All(
        tuple(_lower(design.of(fixed), rival, words) for words, rival in _held(design.of(standard)))
    )


def _lower(fixed: Sequence[Point], rival: Sequence[Point], words: str) -> Contrast:
    largest = min(max(at(point, "params_total") for point in curve) for curve in (fixed, rival))
    against = [(-weight, point) for weight, point in line_at(rival, largest)]
    heads = f"heads of a fixed size over {words}, at {largest / 1e6:.3g}M parameters,"
    return Contrast(heads, [*line_at(fixed, largest), *against])


def _held(standard: Sequence[Point]) -> list[tuple[str, list[Point]]]:
    """The curves that grow at one number of heads, of those that have all sizes.

    Where heads grow with the model there is no such number, and all points are one curve.
    """
    sizes = {at(point, "params_total") for point in standard}
    held = [
        (f"{heads:.0f} standard ones", curve)
        for heads, curve in curves("model.heads", standard).items()
        if {at(point, "params_total") for point in curve} == sizes
    ]
    return held or [("standard ones", list(standard))]
