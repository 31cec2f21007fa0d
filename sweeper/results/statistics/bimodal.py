"""The detection of bimodality: some seeds learned and some did not."""

from collections.abc import Iterable, Sequence

import numpy as np

from sweeper.results.statistics.blocks import ROUNDING
from sweeper.results.statistics.sequential import Floats

# Seeds are bimodal if less than this share of the squared deviations remains within the modes.
REMAINS = 0.05
LEAST_DF_OF_SEEDS = 8
# A point is narrow if its variance is below this share of the widest point's. Narrow points are
# left out, because they say nothing about modes that lie far apart.
COMPARABLE = 0.1
# Narrow points are kept if the widest point has more than this many times their variance, because
# normal values do not lie so far off.
FAR = 64.0


def is_bimodal(
    groups: Iterable[Sequence[float] | Floats], coarsest: float = np.inf
) -> bool:
    """Return whether the seeds of points are bimodal, so that the mean says little.

    Each point is split into two modes with the smallest sum of squares within modes, as by k-means.
    For normal values, at least a sixth of the squares remains within modes if there are
    LEAST_DF_OF_SEEDS more values than modes. Fewer values are never called bimodal: by chance, two
    of the three seeds of a wide point often lie close together.

    Seeds can be equal if the metric has steps, such as an accuracy on 100 rows. The step is the
    smallest difference between two seeds of a point, and at most `coarsest`. Rounding to the step
    adds a variance of step**2 / 12, so at least this variance is counted within modes.

    Args:
        groups: the values of each point, one per seed.
        coarsest: the largest possible step of the metric.
    """
    # For each point: the number of values, their squared deviations, and those within the modes.
    split = []
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
    counted = split if narrow and far else wide
    df = sum(n - 2 for n, _, _ in counted)
    return df >= LEAST_DF_OF_SEEDS and before > 0 and after < REMAINS * before
