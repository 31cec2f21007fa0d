"""Are heads of one size in all layers better than sizes that rise or fall over the layers?

Beyond the paper. Models of equally many heads and parameters are compared; the mean over their
pairs decides. Within the margin of a schedule, one size in all layers is no worse.
"""

from sweeper.results.design import Contrast, Design, Statement, Unanswerable, at, by
from sweeper.results.statistics.sequential import All


def claim(design: Design, *, equal: str = "equal") -> Statement:
    """On this arm and every other, which have schedules; points differ in heads only."""
    others = [arm for arm in design.arms if arm != equal]
    if not others:
        raise Unanswerable("The claim needs an arm whose head sizes differ between layers.")
    parts = []
    for arm in others:
        rivals = design.of(arm)
        of_size = {(at(p, "model.heads"), at(p, "params_total")): p for p in rivals}
        if len(of_size) < len(rivals):
            raise Unanswerable(f"More varies in arm {arm} than heads.")
        weights = []
        for one in by("model.heads", design.of(equal)):
            if other := of_size.get((at(one, "model.heads"), at(one, "params_total"))):
                weights += [(1, one), (-1, other)]
        if not weights:
            raise Unanswerable(f"No model of arm {arm} has the size of an equal one.")
        scaled = [(sign / (len(weights) // 2), one) for sign, one in weights]
        parts.append(Contrast(f"one size in all layers over {arm} sizes", scaled))
    return All(tuple(parts))
