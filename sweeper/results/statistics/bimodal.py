"""Detect bimodal values: some seeds of a point learned, and others did not."""

from collections.abc import Iterable, Sequence

import numpy as np

from sweeper.results.statistics.blocks import ROUNDING
from sweeper.results.statistics.sequential import Floats

# Values are bimodal if less than this share of their sum of squared deviations remains after each
# point's values are split into two modes.
REMAINS = 0.05
LEAST_DF_OF_SEEDS = 8
# Only points whose variance is at least this share of the largest one are tested. In the others,
# all seeds probably belong to one mode.
COMPARABLE = 0.1
# The points that are not tested count towards LEAST_DF_OF_SEEDS, too, if the largest variance is
# more than this many times their pooled variance. Variances of normal values hardly ever differ so
# much. So a few seeds are enough then to call the point with the largest variance bimodal.
FAR = 64.0


def is_bimodal(
    groups: Iterable[Sequence[float] | Floats], coarsest: float = np.inf
) -> bool:
    """Return whether the values of the points' seeds are bimodal, so that means say little.

    Two of three values often lie close together by chance. So a few seeds are never called bimodal:
    the number of values must exceed the number of modes (two per point) by at least
    LEAST_DF_OF_SEEDS. In simulations, normal values of equal variance were called bimodal in up to
    9 % of cases with three seeds per point (12 to 14 points), and in up to 1.5 % with four.

    Args:
        groups: the values of each point, one per seed. Points with fewer than three are ignored.
        coarsest: an upper bound on the step of a discrete metric (see `_split`).
    """
    arrays = [np.asarray(own, dtype=np.float64) for own in groups]
    splits = [_split(np.sort(own), coarsest) for own in arrays if len(own) >= 3]
    if not splits:
        return False
    seeds, total, within = np.transpose(splits)
    variances = total / (seeds - 1)
    tested = variances >= COMPARABLE * variances.max()

    rest_if_equal = variances.max() * (seeds - 1)[~tested].sum()
    are_far = rest_if_equal > FAR * total[~tested].sum()
    df = (seeds - 2)[tested | are_far].sum()

    before, after = total[tested].sum(), within[tested].sum()
    return bool(df >= LEAST_DF_OF_SEEDS and before > 0 and after < REMAINS * before)


def _split(values: Floats, coarsest: float) -> tuple[int, float, float]:
    """Split sorted values into the two modes with the smallest sum of squares, as by k-means.

    A discrete metric, such as an accuracy on 100 rows, can give equal values. Its step is estimated
    as the smallest difference between two values, but at most `coarsest`. Rounding to this step
    adds a variance of step**2 / 12, so the variance within modes is at least that.

    Returns:
        The number of values, the sum of their squared deviations from the overall mean, and the sum
        of their squared deviations from the mean of their own mode.
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
