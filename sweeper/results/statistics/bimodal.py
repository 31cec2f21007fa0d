"""Detect that the seeds of points are bimodal, because some learned and some did not."""

from collections.abc import Iterable, Sequence

import numpy as np

from sweeper.results.statistics.blocks import ROUNDING
from sweeper.results.statistics.sequential import Floats

# Seeds are bimodal if less than this share of the squared deviations remains within the modes.
REMAINS = 0.05
LEAST_DF_OF_SEEDS = 8
# Only points with at least this share of the largest variance count. Points with a smaller variance
# say nothing about modes that lie far apart.
COMPARABLE = 0.1
# The degrees of freedom of the other points count, too, if the largest variance is more than this
# many times their pooled variance. Variances of normal values hardly ever differ so much. So the
# point with the largest variance may be bimodal.
FAR = 64.0


def is_bimodal(
    groups: Iterable[Sequence[float] | Floats], coarsest: float = np.inf
) -> bool:
    """Return whether the seeds of points are bimodal, so that the mean says little.

    Few seeds are never called bimodal, because two of three seeds often lie close together by
    chance. The number of values must exceed the number of modes (two per point) by at least
    LEAST_DF_OF_SEEDS. Then even normal values leave at least a sixth of the squared deviations
    within the modes, so they are hardly ever called bimodal.

    Args:
        groups: the values of each point, one per seed.
        coarsest: the largest possible step of the metric.
    """
    arrays = [np.asarray(own, dtype=np.float64) for own in groups]
    splits = [_split(np.sort(own), coarsest) for own in arrays if len(own) >= 3]
    if not splits:
        return False
    seeds, total, within = np.transpose(splits)
    variances = total / (seeds - 1)
    wide = variances >= COMPARABLE * variances.max()

    usual = variances.max() * (seeds - 1)[~wide].sum()
    are_far = usual > FAR * total[~wide].sum()
    df = (seeds - 2)[wide | are_far].sum()

    before, after = total[wide].sum(), within[wide].sum()
    return bool(df >= LEAST_DF_OF_SEEDS and before > 0 and after < REMAINS * before)


def _split(values: Floats, coarsest: float) -> tuple[int, float, float]:
    """Split sorted values into the two modes with the smallest sum of squares, as by k-means.

    Seeds can be equal if the metric has steps, such as an accuracy on 100 rows. The step is the
    smallest difference between two seeds of a point, and at most `coarsest`. Rounding to the step
    adds a variance of step**2 / 12, so at least this variance is counted within modes.

    Returns:
        The number of values, the sum of their squared deviations from the mean, and the sum of
        their squared deviations from the mean of their mode.
    """
    gaps = np.diff(values)
    resolved = gaps[gaps > ROUNDING * np.abs(values).max()]
    step = float(resolved.min(initial=coarsest))

    seeds = len(values)
    centred = values - values.mean()
    sizes = np.arange(1, seeds)  # the possible numbers of seeds in the lower mode
    lower = np.cumsum(centred)[:-1]
    between = lower**2 / sizes + lower**2 / (seeds - sizes)
    with np.errstate(over="ignore"):
        total = float((centred**2).sum())
        within = max(total - float(between.max()), seeds * step**2 / 12)
    return seeds, total, within
