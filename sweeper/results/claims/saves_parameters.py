"""Do heads of a fixed size reach the loss of the standard heuristic with fewer parameters?

The paper's Figures 1 and 4 read sideways: an arm that has the lower loss at the largest size that
both have, has the other's loss with fewer. Between points a curve is straight in the logarithm of
parameters. The standard arm is asked at every number of heads that it holds as it grows, the best
of them included.

The share saved is the lead over what the fixed arm gains with a factor of parameters, along the
line through its points: a ratio of two sums of means. Its interval is Fieller's (Biometrika 27,
1940): every share but those at which the lead, less what that share is worth, is not 0. It holds
as often as the claim's other intervals, each by itself.
"""

import math
from collections.abc import Sequence

import numpy as np

from sweeper.results.design import (
    Contrast,
    Design,
    Read,
    Statement,
    Unanswerable,
    at,
    curves,
    read_at,
    slopes,
)
from sweeper.results.points import Point
from sweeper.results.statistics.sequential import All
from sweeper.store.numbers import short

_SHARES = [per_cent / 100 for per_cent in range(-99, 100)]


def claim(design: Design, *, standard: str = "standard", fixed: str = "fixed") -> Statement:
    """On two arms."""
    if design.metric.rpartition("/")[2] not in ("loss", "perplexity", "perplexity_per_word"):
        raise Unanswerable("The claim is about a loss.")
    rivals = design.of(standard)
    sizes = {at(point, "params_total") for point in rivals}
    held = [
        (f"{heads:.0f} standard ones", curve)
        for heads, curve in curves("model.heads", rivals).items()
        if {at(point, "params_total") for point in curve} == sizes
    ]
    # Where heads grow with the model, no number of heads has all sizes: all points are one curve.
    curve = held or [("standard ones", rivals)]
    return All(tuple(_lower(design.of(fixed), rival, words) for words, rival in curve))


def _lower(fixed: Sequence[Point], rival: Sequence[Point], words: str) -> Contrast:
    largest = min(max(at(point, "params_total") for point in curve) for curve in (fixed, rival))
    weights = [*read_at(fixed, largest), *((-weight, p) for weight, p in read_at(rival, largest))]
    heads = f"heads of a fixed size over {words}, at {short(largest, 3)} parameters,"

    def saved(read: Read) -> str:
        ordered = sorted(fixed, key=lambda point: at(point, "params_total"))
        sizes = [at(point, "params_total") for point in ordered]
        gain, span = list(zip(slopes(sizes), ordered, strict=True)), math.log(sizes[-1] / sizes[0])
        worth = [-math.log1p(-share) / span for share in _SHARES]
        less = [[*weights, *((-part * weight, p) for weight, p in gain)] for part in worth]
        ahead, gained = read([weights, gain]).values
        if gained <= 0:
            return ""
        share = -math.expm1(-ahead / gained * span)
        if share < _SHARES[0]:  # so far off the line tells no number
            return "more than twice the parameters needed, as the slope of its curve goes"
        left = read(less)
        (could,) = np.nonzero((left.lows <= 0) & (left.highs >= 0))
        interval = "[no interval]"
        if len(could) and could[0] > 0 and could[-1] < len(_SHARES) - 1:
            low, high = _SHARES[could[0] - 1], _SHARES[could[-1] + 1]  # next to what is excluded
            interval = f"[{low * 100:.0f}, {high * 100:.0f}]"
        return f"{share:.0%} of the parameters saved {interval}, as the slope of its curve goes"

    return Contrast(heads, weights, note=saved)
