"""The effective speedup: how much sooner the better of two runs reaches the other's last loss.

Where its validation curve first reaches the loss at which the worse run ends, the better run has
spent a share of its FLOPs and seconds. The speedup is the whole cost of the worse run over that
share. Its logarithm is one number a seed. The interval of its mean stays valid however often one
looks, as those of verdicts do (statistics/sequential.py).
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sweeper.results.claims import LOSSES
from sweeper.results.design import Contrast
from sweeper.results.evidence import COSTS, Evidence
from sweeper.results.points import Point
from sweeper.results.statistics.blocks import estimates, intervals
from sweeper.results.table import STEADY, RunFiles, number


def speedups(
    evidence: Evidence, contrast: Contrast, costs: Iterable[str], level: float
) -> Mapping[str, list[float]]:
    """Return by cost the logarithm of the first side's speedup, and the ends of its interval.

    There is none with fewer than FIRST seeds, or if a last loss is not on the other run's curve.

    Args:
        costs: those to return, of COSTS.
        level: the chance of error at each end.
    """
    found = {}
    pairs = _pairs(contrast)
    for cost in costs if pairs else ():
        logs = np.array(
            [
                sum(
                    w * _log(evidence, cost, one, other, seed)
                    for w, one, other in pairs
                )
                for seed in pairs[0][1].runs
            ]
        )
        logs = logs[~np.isnan(logs)]
        if np.isfinite(logs).all():
            means = estimates(logs[None], np.ones((1, 1)))
            ends = np.ravel(intervals(means, np.full((1, 2), level))).tolist()
            if math.isfinite(ends[-1]):
                found[cost] = ends
    return found


def why_unread(evidence: Evidence, contrasts: Sequence[Contrast]) -> str:
    """Return the sentence on why curves give no speedup; "" if they may, or there are no pairs."""
    schedules = {
        str(own.config.get("optimizer.schedule")) for own in evidence.files.values()
    }
    falling = ", ".join(sorted(schedules - {"None", *STEADY}))
    is_loss = evidence.metric.rpartition("/")[2] in LOSSES
    if falling and is_loss and any(map(_pairs, contrasts)):
        return (
            f"No effective speedup: the learning rate falls to zero (schedule {falling}), so a "
            "curve holds at its end only."
        )
    return ""


def _pairs(contrast: Contrast) -> list[tuple[float, Point, Point]]:
    """Return the pairs of points whose weighted mean a contrast is; [] if it is something else.

    A claim lists the points of a pair one after the other.
    """
    firsts, seconds = contrast.weights[::2], contrast.weights[1::2]
    pairs = [
        (weight, one, other)
        for (weight, one), (opposite, other) in zip(firsts, seconds, strict=False)
        if math.isclose(weight, -opposite)
    ]
    whole = 2 * len(pairs) == len(contrast.weights)
    return pairs if whole and math.isclose(abs(sum(w for w, *_ in pairs)), 1) else []


def _log(evidence: Evidence, cost: str, one: Point, other: Point, seed: int) -> float:
    """Return the logarithm of a point's speedup over another by one seed.

    It is nan if a run is not measured, and infinite if a last loss is not on the other's curve.
    Between validations, the loss is a straight line over the logarithm of the step.
    """
    runs = [point.runs.get(seed, "") for point in (one, other)]
    curve, others = (evidence.files.get(run, RunFiles()).curve for run in runs)
    if not (curve and others):
        return math.nan
    last = others[-1][1]
    if curve[-1][1] > last:
        return -_log(evidence, cost, other, one, seed)
    own, whole = (number(evidence.rows[run][COSTS[cost]]) for run in runs)
    if not (own and whole):
        return math.nan
    steps, losses = np.transpose(curve)
    shares = np.log(steps / steps[-1])
    reached = -np.minimum.accumulate(losses)
    return math.log(whole / own) - float(
        np.interp(-last, reached, shares, left=-math.inf)
    )
