"""Which points' next seeds narrow the contrasts that are still needed most, for what they cost."""

from __future__ import annotations

import numpy as np

from sweeper.results.deciding.boundary import FIRST
from sweeper.results.deciding.spreads import Floats


def allocated(
    weights: Floats,
    needs: Floats,
    variances: Floats,
    counts: Floats,
    *,
    costs: Floats,
    most: int,
    runs: int,
) -> Floats:
    """How many seeds each point gets next, (points,), `runs` in all or fewer.

    First of all every point of these contrasts gets FIRST seeds, whatever `runs` is: there is no
    answer without. Then, one by one, the seed that takes the largest share off the squared errors,
    for its cost; no contrast is narrowed further than its need.

    Args:
        weights: (contrasts, points), of the contrasts that undecided claims have still to narrow.
        needs: (contrasts,), seeds a point that each is expected to take in all (`Price.needs`);
            infinite where none is known to be enough.
        variances, counts: (points,), of a seed, and the seeds that are there.
        costs: (points,), of one run, above 0.
        most: seeds that no point goes beyond.
    """
    used = (weights != 0).any(axis=0)
    now = np.where(used, np.maximum(counts, min(FIRST, most)), counts).astype(np.float64)
    squares = weights**2 * np.where(np.isfinite(variances) & (variances > 0), variances, 1.0)
    targets = squares.sum(axis=1) / needs
    for _ in range(max(runs - int((now - counts).sum()), 0)):
        errors = (squares / np.maximum(now, 1)).sum(axis=1)
        open_still = errors > targets * (1 + 1e-9)
        gains = squares[open_still] / errors[open_still, None] / (now * (now + 1))
        gain = np.where(now < most, gains.sum(axis=0) / costs, 0.0)
        if not gain.any():
            break
        now[int(gain.argmax())] += 1
    return now - counts
