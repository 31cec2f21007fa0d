"""Are heads of one size in all layers better than sizes that rise or fall over the layers?

Beyond the paper. Models of equally many heads and parameters are compared; the mean over their
pairs decides. Within the margin of a schedule, one size in all layers is no worse.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.results.design import Contrast, Design, Statement, Unanswerable, at, by
from sweeper.results.points import Point
from sweeper.results.statistics.sequential import All


def claim(design: Design, *, equal: str = "equal") -> Statement:
    """On this arm and every other, which have schedules; points differ in heads only."""
    others = [arm for arm in design.arms if arm != equal]
    if not others:
        raise Unanswerable("The claim needs an arm whose head sizes differ between layers.")
    return All(tuple(_ahead(design.of(equal), design.of(arm)) for arm in others))


def _ahead(equal: Sequence[Point], schedule: Sequence[Point]) -> Contrast:
    """Return the contrast that the first arm is better, over the pairs of equal size."""
    of_size = {(at(one, "model.heads"), at(one, "params_total")): one for one in schedule}
    pairs = [
        (one, other)
        for one in by("model.heads", equal)
        if (other := of_size.get((at(one, "model.heads"), at(one, "params_total"))))
    ]
    if not pairs:
        raise Unanswerable(f"No model of arm {schedule[0].arm} has the size of an equal one.")
    weights = [
        (sign / len(pairs), one) for pair in pairs for sign, one in zip((1, -1), pair, strict=True)
    ]
    return Contrast(f"one size in all layers over {schedule[0].arm} sizes", weights)
