"""The detection of seeds in two groups far apart: some runs learned and some did not."""

from collections.abc import Iterable, Sequence

import numpy as np

from sweeper.results.statistics.blocks import ROUNDING
from sweeper.results.statistics.sequential import Floats

# The share of the squared deviations that remains within the two modes.
REMAINS = 0.05
LEAST_DF_OF_SEEDS = 8
# A point with a smaller share of the widest point's variance says nothing about modes as far apart,
COMPARABLE = 0.1
# unless the widest has this many times the variance of such points: no normal seed lies so far off.
FAR = 64.0


def is_bimodal(
    groups: Iterable[Sequence[float] | Floats], coarsest: float = np.inf
) -> bool:
    """Return whether seeds of points are bimodal, so that a mean does not describe them.

    Each point is split in two where that leaves the least squares, as k-means does. Of normal
    values a sixth or more of the squares remains once there are LEAST_DF_OF_SEEDS more values than
    modes. Fewer values are never called bimodal: the three seeds of a wide point often lie two and
    one by chance.

    Seeds tie where a metric has steps, as an accuracy on 100 rows has. A step is the least
    difference between seeds of a point, at most `coarsest`. Rounding to it has a variance of
    step**2 / 12, so the values within modes keep at least that; without ties they have more.
    """
    split = []  # number of values, their squared deviations, and those that the best split leaves
    for group in groups:
        if len(group) >= 3:
            values = np.sort(np.asarray(group, dtype=np.float64))
            gaps = np.diff(values)
            step = gaps[gaps > ROUNDING * np.abs(values).max()].min(initial=coarsest)
            values = values - values.mean()
            sizes = np.arange(1, len(values))
            left = np.cumsum(values)[:-1]
            between = left**2 / sizes + left**2 / (len(values) - sizes)
            with np.errstate(over="ignore"):
                total = float((values**2).sum())
                within = max(
                    total - float(between.max()), len(values) * float(step**2) / 12
                )
            split.append((len(values), total, within))
    widest = max((total / (n - 1) for n, total, _ in split), default=0.0)
    wide = [one for one in split if one[1] >= COMPARABLE * widest * (one[0] - 1)]
    narrow = [one for one in split if one not in wide]
    before = sum(total for _, total, _ in wide)
    after = sum(within for _, _, within in wide)
    far = widest * sum(n - 1 for n, _, _ in narrow) > FAR * sum(t for _, t, _ in narrow)
    df = sum(n - 2 for n, _, _ in (split if narrow and far else wide))
    return df >= LEAST_DF_OF_SEEDS and before > 0 and after < REMAINS * before
