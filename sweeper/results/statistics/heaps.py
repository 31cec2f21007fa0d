"""Whether outcomes fall into two heaps, such as learned and not learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# The share of the squared deviations that remains within the heaps.
REMAINS = 0.05
LEAST_DF = 8


def two_heaps(groups: Sequence[Sequence[float]]) -> bool:
    """Whether points' own seeds lie in two heaps far apart, so that no mean describes them.

    Each point is split in two where that leaves the least squares, as k-means does; of normal
    values a sixth or more remains once there are LEAST_DF values more than heaps. Too few values
    are never heaps: a point that was always learned beside one that never was cannot be told.
    """
    before = after = 0.0
    df = 0
    for group in groups:
        values = np.sort(np.asarray(group, dtype=np.float64))
        if len(values) < 3:
            continue
        values = values - values.mean()
        df += len(values) - 2
        sizes = np.arange(1, len(values))
        left = np.cumsum(values)[:-1]
        between = left**2 / sizes + left**2 / (len(values) - sizes)
        with np.errstate(over="ignore"):
            total = float((values**2).sum())
        before += total
        after += total - float(between.max())
    return df >= LEAST_DF and before > 0 and after < REMAINS * before
