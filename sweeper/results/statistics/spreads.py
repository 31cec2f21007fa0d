"""What is known of each point's spread between seeds, from its own few seeds and all other points'.

Three seeds say next to nothing of their own spread, and one spread pooled over all points is wrong
where they differ. So each point's variance is moderated (Smyth, Stat. Appl. Genet. Mol. Biol. 3,
2004): a mean of its own and of the pooled one, which counts as much as `worth` further degrees of
freedom; those are what the likelihood of all variances says of how alike they are, as the harmonic
mean over `WORTHS`, so that a doubt whether they are alike weighs more than the hope. Of two points
nothing can be said on that, so nothing is lent. Two cases are kept apart: a variance far above the
moderated one stands for itself (`OUT_OF_LINE`), and one beyond all measure (a seed that diverged:
`BEYOND`) is not lent to others either.

Assumes independent seeds, near normal. Arrays may have any leading dimensions, one experiment each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

OUT_OF_LINE = 1.45
BEYOND = 1000.0
WORTHS = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1000.0)
# Fewer degrees of freedom than these in all points together are too few for any answer.
LEAST_DF = 12
_ROUNDS = 12


class Sample(NamedTuple):
    """The seeds of points: (..., points) arrays; a variance of one seed counts nothing."""

    means: Floats
    variances: Floats
    counts: Floats

    @property
    def df(self) -> Floats:
        """Degrees of freedom of each variance."""
        left: Floats = np.maximum(self.counts - 1, 0)
        return left


@dataclass(frozen=True)
class Spreads:
    """Moderated variances of points, and how well they are known.

    Attributes:
        variances: (..., points), of one seed.
        df: (..., points), as if each point had them to itself.
        lent: (..., points), the part of each variance that is the pooled one, which errs in common.
        pooled_df: (...), the degrees of freedom of the pooled variance.
    """

    variances: Floats
    df: Floats
    lent: Floats
    pooled_df: Floats

    def of(self, weights: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """Squared standard error and degrees of freedom of sums of weight * mean.

        `weights` (contrasts, points); the results (..., contrasts). After Satterthwaite (Biometrics
        Bulletin 2, 1946), the pooled part counted once. An error that is not known is infinite.
        """
        with np.errstate(all="ignore"):
            each = np.where(counts > 0, self.variances / counts, np.inf)
            parts = np.where(weights != 0, weights**2 * each[..., None, :], 0.0)
            error = parts.sum(axis=-1)
            own = (parts**2 / self.df[..., None, :]).sum(axis=-1)
            common = (parts * self.lent[..., None, :]).sum(axis=-1) ** 2 / self.pooled_df[..., None]
            df = error**2 / (own + common)
        known = np.isfinite(error) & np.isfinite(df) & (df > 0)
        return np.where(known, error, np.inf), np.where(known, df, 1.0)


def sample(groups: Sequence[Sequence[float]]) -> Sample:
    """The sample of each point's values, one value a seed.

    Values so large that their squares overflow have an infinite variance. ValueError of nan or inf.
    """
    means, variances = np.zeros(len(groups)), np.zeros(len(groups))
    for place, group in enumerate(groups):
        values = np.asarray(group, dtype=np.float64)
        if not np.isfinite(values).all():
            raise ValueError("a measurement that is no finite number")
        if len(values):
            means[place] = values[0] + (values - values[0]).mean()
        if len(values) > 1:
            with np.errstate(over="ignore", invalid="ignore"):
                variances[place] = values.var(ddof=1)
    variances = np.where(np.isnan(variances), np.inf, variances)
    return Sample(means, variances, np.array([len(group) for group in groups], dtype=np.float64))


def moderated(given: Sample) -> Spreads:
    """The spreads of the points; of infinite variance where nothing is known of any."""
    df = given.df
    regular = (df > 0) & (given.variances / BEYOND <= _middle(given)[..., None])
    regular &= np.isfinite(given.variances)
    lends = np.where(regular, df, 0.0)
    variances = np.where(regular, given.variances, 0.0)
    pooled_df = lends.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = np.nan_to_num((lends * variances).sum(axis=-1) / pooled_df)[..., None]
    most = np.maximum(regular.sum(axis=-1) - 2, 0) ** 2 / 2  # by the points it rests on
    worth = (np.minimum(_worth(variances, lends), most) if most.any() else most)[..., None]
    weight = worth + lends
    with np.errstate(invalid="ignore", divide="ignore"):
        mixed = (worth * pooled + lends * variances) / weight
        lent = np.nan_to_num(worth * pooled / (weight * mixed))
    own = (df > 0) & ((given.variances > OUT_OF_LINE * mixed) | ~regular | np.isnan(mixed))
    known = np.where(own, given.variances, np.where(np.isnan(mixed), np.inf, mixed))
    moderated_df = np.where(regular | (df == 0), weight, df)
    return Spreads(known, moderated_df, np.where(regular | (df == 0), lent, 0.0), pooled_df)


def identical(given: Sample) -> npt.NDArray[np.bool_]:
    """Whether seeds differ by rounding at most, so that nothing measures chance: (...)."""
    size = np.abs(given.means).max(axis=-1)
    largest = np.where(given.df > 0, given.variances, 0.0).max(axis=-1)
    same: npt.NDArray[np.bool_] = np.sqrt(largest) <= 1e-9 * size
    return same


def _middle(given: Sample) -> Floats:
    """The median of the variances that are known, (...); 0 of none."""
    found = np.where(given.df > 0, given.variances, np.nan)
    with np.errstate(invalid="ignore"):
        ordered = np.sort(found, axis=-1)  # nan last
    count = (given.df > 0).sum(axis=-1)
    place = np.minimum(count // 2, given.df.shape[-1] - 1)[..., None]
    middle: Floats = np.nan_to_num(np.take_along_axis(ordered, place, axis=-1)[..., 0])
    return middle


def _worth(variances: Floats, df: Floats) -> Floats:
    """The degrees of freedom that the variances say their pooled one is worth: (...)."""
    largest = variances.max(axis=-1, keepdims=True)
    variances = variances / np.where(largest > 0, largest, 1.0)  # so that no power overflows
    likelihoods = np.stack([_likelihood(worth, variances, df) for worth in WORTHS], axis=-1)
    shares = np.exp(likelihoods - likelihoods.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    found: Floats = 1 / (shares / np.array(WORTHS)).sum(axis=-1)
    return found


def _likelihood(worth: float, variances: Floats, df: Floats) -> Floats:
    """The log likelihood of variances around one that is worth so much, at the likeliest one.

    Each variance is F distributed with df and `worth` degrees of freedom, times that one.
    """
    from scipy.special import gammaln

    centre = np.maximum(variances.mean(axis=-1, keepdims=True), 1e-100)
    for _ in range(_ROUNDS):
        each = (worth + df) / (worth * centre + df * variances)
        centre = variances.shape[-1] / each.sum(axis=-1, keepdims=True)
    found: Floats = (
        gammaln((worth + df) / 2)
        - gammaln(worth / 2)
        + worth / 2 * np.log(worth * centre)
        - (worth + df) / 2 * np.log(worth * centre + df * variances)
    ).sum(axis=-1)
    return found


# The share of the squared deviations that remains within the heaps.
REMAINS = 0.05
LEAST_DF_OF_SEEDS = 8
# Of the widest point's variance: a point of less cannot tell of heaps as far apart as its, unless
# the widest has so many times the variance of such points that no normal seed lies so far off.
COMPARABLE = 0.1
FAR = 64.0


def two_heaps(groups: Sequence[Sequence[float]]) -> bool:
    """Whether points' own seeds lie in two heaps far apart, so that no mean describes them.

    Each point is split in two where that leaves the least squares, as k-means does; of normal
    values a sixth or more remains once there are LEAST_DF_OF_SEEDS values more than heaps. Too few
    values are never heaps: a point that was always learned beside one that never was cannot be
    told, nor is one that is somewhat wider than others heaped because its seeds happen to lie two
    and one.
    """
    split = [_split(group) for group in groups if len(group) >= 3]
    widest = max((total / (values - 1) for values, total, _ in split), default=0.0)
    wide = [one for one in split if one[1] >= COMPARABLE * widest * (one[0] - 1)]
    narrow = [one for one in split if one not in wide]
    before = sum(total for _, total, _ in wide)
    after = sum(within for _, _, within in wide)
    far = widest * sum(values - 1 for values, _, _ in narrow) > FAR * sum(t for _, t, _ in narrow)
    df = sum(values - 2 for values, _, _ in (split if narrow and far else wide))
    return df >= LEAST_DF_OF_SEEDS and before > 0 and after < REMAINS * before


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
