"""The effective speedup: how much sooner the better of two runs reaches the other's last loss.

The speedup is the total cost of the worse run, divided by the cost at which the validation curve of
the better run first reaches the worse run's last loss. Costs are FLOPs and seconds. Each seed gives
one logarithm of a speedup. The interval of their mean stays valid for any number of interim
analyses, as those of verdicts do (statistics/sequential.py).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sweeper.results.claims import LOSSES
from sweeper.results.design import Contrast
from sweeper.results.evidence import COSTS, Evidence
from sweeper.results.points import Point
from sweeper.results.statistics.blocks import estimates, intervals
from sweeper.results.table import STEADY, Data, RunFiles, number


def speedups(
    evidence: Evidence, contrast: Contrast, costs: Iterable[str], level: float
) -> Mapping[str, list[float]]:
    """Return [value, low, high] for each cost: the log speedup and the ends of its interval.

    The log speedup is above 0 if the first side of the contrast needs less cost than the second for
    the same loss. Return {} if the contrast is not a mean over pairs of points. Seeds and costs are
    left out in these cases:

    - a seed, if one of its runs has a parent, because the curve does not show the parent's cost, or
      if the two runs of a pair were validated on different rows
    - a cost, if fewer than FIRST seeds remain, or if the curve of a better run starts below the
      other run's last loss

    Args:
        evidence: the points and their curves.
        contrast: the compared points.
        costs: the costs to return, a subset of COSTS.
        level: the probability that the true value lies beyond one given end of the interval.
    """
    found = {}
    pairs = _pairs(contrast)
    for cost in costs if pairs else ():
        logs = np.array(
            [
                sum(
                    weight * _log(evidence, cost, one, other, seed)
                    for weight, one, other in pairs
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


def why_no_speedup(evidence: Evidence, contrasts: Sequence[Contrast]) -> str:
    """Return a sentence if only the learning-rate schedule rules out effective speedups, else "".

    Return "" if the metric is not a loss, or if no contrast is a mean over pairs of points, because
    such contrasts have no speedup anyway.
    """
    schedules = {
        str(own.config.get("optimizer.schedule")) for own in evidence.files.values()
    }
    falling = ", ".join(sorted(schedules - {"None", *STEADY}))
    is_loss = evidence.metric.rpartition("/")[2] in LOSSES
    if falling and is_loss and any(map(_pairs, contrasts)):
        return (
            "An effective speedup cannot be computed, because the learning rate falls to zero "
            f"(optimizer.schedule={falling})."
        )
    return ""


def _pairs(contrast: Contrast) -> list[tuple[float, Point, Point]]:
    """Return (weight, first, second) for each pair of points that a contrast averages over.

    Return [] if the contrast is not a mean over pairs. Claims list the two points of a pair one
    after the other.
    """
    firsts, seconds = contrast.weights[::2], contrast.weights[1::2]
    pairs = [
        (weight, one, other)
        for (weight, one), (opposite, other) in zip(firsts, seconds, strict=False)
        if math.isclose(weight, -opposite)
    ]
    all_paired = 2 * len(pairs) == len(contrast.weights)
    total = sum(weight for weight, *_ in pairs)
    return pairs if all_paired and math.isclose(abs(total), 1) else []


def _log(evidence: Evidence, cost: str, one: Point, other: Point, seed: int) -> float:
    """Return the log speedup of the point `one` over the point `other` for one seed.

    Between validations, the loss is interpolated linearly in the logarithm of the step. Return nan
    if the two runs cannot be compared, and an infinity if the curve of the better run starts below
    the other run's last loss.
    """
    runs = [point.runs.get(seed, "") for point in (one, other)]
    files = [evidence.files.get(run, RunFiles()) for run in runs]
    curve, others = (own.curve for own in files)
    if not (curve and others) or any(evidence.rows[run].get("parent") for run in runs):
        return math.nan
    rows, other_rows = (_validation_rows(own.config) for own in files)
    if rows != other_rows:
        return math.nan
    last = others[-1][1]
    # Only the better run reaches the other's last loss. So if `other` is better, swap the two.
    if curve[-1][1] > last:
        return -_log(evidence, cost, other, one, seed)
    own, other_cost = (number(evidence.rows[run][COSTS[cost]]) for run in runs)
    if not (own and other_cost):
        return math.nan
    steps, losses = np.transpose(curve)
    log_shares = np.log(steps / steps[-1])
    # np.interp needs ascending values, so losses are negated.
    reached = -np.minimum.accumulate(losses)
    log_share = np.interp(-last, reached, log_shares, left=-math.inf)
    return math.log(other_cost / own) - float(log_share)


def _validation_rows(config: Data) -> tuple[Any, ...]:
    """Return the config values that determine which rows of data a run is validated on.

    If `trainer.validate_every` is not set, a run is validated on a sample of the rows. Then include
    the values that determine the size of the sample: `task.batch_tokens`, and for a pre-training
    also `trainer.steps`.
    """
    keys = [
        "data.digest",
        "task.sequence_length",
        "task.joined",
        "task.vocabulary_size",
    ]
    sampled = not config.get("trainer.validate_every")
    if sampled:
        keys.append("task.batch_tokens")
    if sampled and config.get("task.name") == "pretraining":
        keys.append("trainer.steps")
    return (sampled, *(config.get(key) for key in keys))
