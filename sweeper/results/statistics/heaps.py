"""Whether outcomes fall into two heaps, such as learned and not learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# The share of the squared deviations that remains within the heaps.
REMAINS = 0.05
LEAST_DF = 8
# Of the widest point's variance: a point of less cannot tell of heaps as far apart as its, unless
# the widest has so many times the variance of such points that no normal seed lies so far off.
COMPARABLE = 0.1
FAR = 64.0


def two_heaps(groups: Sequence[Sequence[float]]) -> bool:
    """Whether points' own seeds lie in two heaps far apart, so that no mean describes them.

    Each point is split in two where that leaves the least squares, as k-means does; of normal
    values a sixth or more remains once there are LEAST_DF values more than heaps. Too few values
    are never heaps: a point that was always learned beside one that never was cannot be told, nor
    is one that is somewhat wider than others heaped because its seeds happen to lie two and one.
    """
    split = [_split(group) for group in groups if len(group) >= 3]
    widest = max((total / (values - 1) for values, total, _ in split), default=0.0)
    wide = [one for one in split if one[1] >= COMPARABLE * widest * (one[0] - 1)]
    narrow = [one for one in split if one not in wide]
    before = sum(total for _, total, _ in wide)
    after = sum(within for _, _, within in wide)
    far = widest * sum(values - 1 for values, _, _ in narrow) > FAR * sum(t for _, t, _ in narrow)
    df = sum(values - 2 for values, _, _ in (split if narrow and far else wide))
    return df >= LEAST_DF and before > 0 and after < REMAINS * before


def _split(group: Sequence[float]) -> tuple[int, float, float]:
    """How many values there are, their squared deviations, and those that the best split leaves."""
    values = np.sort(np.asarray(group, dtype=np.float64))
    values = values - values.mean()
    sizes = np.arange(1, len(values))
    left = np.cumsum(values)[:-1]
    between = left**2 / sizes + left**2 / (len(values) - sizes)
    with np.errstate(over="ignore"):
        total = float((values**2).sum())
    return len(values), total, total - float(between.max())
