"""Do heads of a fixed size reach the loss of the standard heuristic with fewer parameters?

The paper's Figures 1 and 4 read sideways: an arm that has the lower loss at the largest size that
both have, has the other's loss with fewer. Between points a curve is straight in the logarithm of
parameters. The standard arm is asked at every number of heads that it holds as it grows, the best
of them included.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.results.claims.evidence.design import (
    All,
    Contrast,
    Design,
    Mean,
    Statement,
    Unanswerable,
    at,
    curves,
    read_at,
    slopes,
)
from sweeper.results.table.points import Point
from sweeper.store.numbers import short


def claim(design: Design, *, standard: str = "standard", fixed: str = "fixed") -> Statement:
    """On two arms."""
    if design.metric.rpartition("/")[2] not in ("loss", "perplexity", "perplexity_per_word"):
        raise Unanswerable("The claim is about a loss.")
    return All(
        tuple(_lower(design.of(fixed), rival, words) for words, rival in _held(design.of(standard)))
    )


def _lower(fixed: Sequence[Point], rival: Sequence[Point], words: str) -> Contrast:
    largest = min(max(at(point, "params_total") for point in curve) for curve in (fixed, rival))
    weights = [*read_at(fixed, largest), *((-weight, p) for weight, p in read_at(rival, largest))]
    heads = f"heads of a fixed size over {words}, at {short(largest, 3)} parameters,"

    def saved(mean: Mean) -> str:
        ordered = sorted(fixed, key=lambda point: at(point, "params_total"))
        sizes = [at(point, "params_total") for point in ordered]
        gained = sum(w * mean(point) for w, point in zip(slopes(sizes), ordered, strict=True))
        if gained <= 0:
            return ""
        ahead = sum(weight * mean(point) for weight, point in weights)
        share = 1 - (sizes[-1] / sizes[0]) ** (-ahead / gained)
        return f"{share:.0%} of the parameters saved, as the slope of its curve goes"

    return Contrast(heads, weights, note=saved)


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
