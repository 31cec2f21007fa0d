"""Variances between seeds, errors of contrasts of points, and the detection of bimodal seeds.

Three seeds say little about their own spread, and one spread pooled over all points is wrong where
points differ. So each point's variance is moderated (Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004):
a mean of its own variance and the pooled one, which counts as much as `worth` further degrees of
freedom. `worth` follows from the likelihood of all variances: the harmonic mean over `WORTHS`, so
that evidence against equal variances weighs more. Two points say nothing about that, so they share
nothing. Two cases stand apart: a variance far above the moderated one is used unchanged
(`OUT_OF_LINE`), and an extreme one (`BEYOND`: a seed diverged) does not enter the pooled variance.

Seeds of one point are assumed independent and near normal. Leading dimensions of arrays are
experiments.

Runs with one seed see the same data in the same order and start from the same draws, so points are
correlated: a contrast is surer, or less sure, than independent points would be. There are two
estimates of its error, and intervals use the one that reaches less far.

The *paired* one is the spread of the contrast's own series, one value for each seed. It is right at
any correlation, and has few degrees of freedom. Seeds that the same points have form a block with a
variance of its own. One degree less than usual in each block keeps the error of repeated analyses
(measured: docs/decisions.md). Where one arm dominates a contrast, its skewness does not cancel, and
t errs to one side (Johnson, JASA 73, 1978).

The *common* one has the points' moderated variances and one correlation for all pairs of a
contrast, as an effect of the seed on every point gives: the mean correlation with all other points
of the point that follows them least. It allows for any pair a further correlation of `FURTHER`, in
the direction that does harm. Where the contrast's own series spreads more than that,
the two are *mixed*, by degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

OUT_OF_LINE = 1.45
BEYOND = 1000.0
WORTHS = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1000.0)
# With fewer degrees of freedom in all points together, nothing is decided.
LEAST_DF = 12
ROUNDING = 1e-9  # of values, relative to them
_ROUNDS = 12


@dataclass(frozen=True)
class Sample:
    """Measurements of points by seed: (..., points, seeds), nan where a seed is not measured.

    A variance of one seed is 0 and has no meaning; it is infinite where squares overflow.
    """

    values: Floats

    @cached_property
    def there(self) -> npt.NDArray[np.bool_]:
        """True where a seed is measured, (..., points, seeds)."""
        return ~np.isnan(self.values)

    @cached_property
    def counts(self) -> Floats:
        """The number of seeds of each point, (..., points)."""
        found: Floats = self.there.sum(axis=-1).astype(np.float64)
        return found

    @cached_property
    def means(self) -> Floats:
        """The mean of each point; 0 without seeds."""
        first = self.there.argmax(axis=-1)[..., None]
        start: Floats = np.nan_to_num(np.take_along_axis(self.values, first, axis=-1))
        above = np.where(self.there, self.values - start, 0.0).sum(axis=-1)
        found: Floats = start[..., 0] + above / np.maximum(self.counts, 1)
        return found

    @cached_property
    def residuals(self) -> Floats:
        """The values less their point's mean, 0 where a seed is not measured."""
        return np.where(self.there, self.values - self.means[..., None], 0.0)

    @cached_property
    def variances(self) -> Floats:
        """The variance between the seeds of each point."""
        with np.errstate(over="ignore"):
            squares: Floats = (self.residuals**2).sum(axis=-1) / np.maximum(self.df, 1)
        return squares

    @property
    def df(self) -> Floats:
        """The degrees of freedom of each variance."""
        return np.maximum(self.counts - 1, 0)

    def first(self, counts: npt.ArrayLike) -> Sample:
        """Return the sample of the first seeds of each point, `counts` (..., points) of them."""
        place = self.there.cumsum(axis=-1)
        return Sample(np.where(place <= np.asarray(counts)[..., None], self.values, np.nan))


@dataclass(frozen=True)
class Spreads:
    """Moderated variances of points and their degrees of freedom.

    Attributes:
        variances: (..., points), of one seed.
        df: (..., points), of each variance by itself.
        lent: (..., points), the share of the pooled variance, whose error points have in common.
        pooled_df: (...), the degrees of freedom of the pooled variance.
    """

    variances: Floats
    df: Floats
    lent: Floats
    pooled_df: Floats

    def of(self, weights: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """Return the squared standard error and degrees of freedom of sums of weight * mean.

        `weights` (contrasts, points); the results (..., contrasts). After Satterthwaite (Biometrics
        Bulletin 2, 1946), with the pooled part counted once. An unknown error is infinite.
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


def sample(groups: Sequence[Mapping[int, float]]) -> Sample:
    """Return the sample of each point's values by seed; ValueError for nan or inf."""
    seeds = sorted({seed for group in groups for seed in group})
    if not all(np.isfinite(value) for group in groups for value in group.values()):
        raise ValueError("a measurement that is no finite number")
    rows = [[group.get(seed, np.nan) for seed in seeds or (0,)] for group in groups]
    return Sample(np.array(rows, dtype=np.float64))


def moderated(given: Sample) -> Spreads:
    """Return the moderated spreads of the points; infinite variances if none is known."""
    df = given.df
    with np.errstate(invalid="ignore"):
        ordered = np.sort(np.where(df > 0, given.variances, np.nan), axis=-1)  # nan last
    place = np.minimum((df > 0).sum(axis=-1) // 2, df.shape[-1] - 1)[..., None]
    median = np.nan_to_num(np.take_along_axis(ordered, place, axis=-1))
    regular = (df > 0) & (given.variances / BEYOND <= median)
    regular &= np.isfinite(given.variances)
    lends = np.where(regular, df, 0.0)
    variances = np.where(regular, given.variances, 0.0)
    pooled_df = lends.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = np.nan_to_num((lends * variances).sum(axis=-1) / pooled_df)[..., None]
    most = np.maximum(regular.sum(axis=-1) - 2, 0) ** 2 / 2  # few points say little about it
    worth = (np.minimum(_worth(variances, lends), most) if most.any() else most)[..., None]
    weight = worth + lends
    with np.errstate(invalid="ignore", divide="ignore"):
        mixed = (worth * pooled + lends * variances) / weight
        lent = np.nan_to_num(worth * pooled / (weight * mixed))
    own = (df > 0) & ((given.variances > OUT_OF_LINE * mixed) | ~regular | np.isnan(mixed))
    known = np.where(own, given.variances, np.where(np.isnan(mixed), np.inf, mixed))
    return Spreads(known, np.where(own, df, weight), np.where(own, 0.0, lent), pooled_df)


def identical(given: Sample) -> npt.NDArray[np.bool_]:
    """Return for which points nothing measures chance, (..., points).

    Their seeds differ by rounding at most, or are fewer than two, and no other point lends them a
    spread.
    """
    size = np.abs(given.means).max(axis=-1, keepdims=True)
    same: npt.NDArray[np.bool_] = np.sqrt(moderated(given).variances) <= ROUNDING * size
    same |= given.df == 0
    return same


def _worth(variances: Floats, df: Floats) -> Floats:
    """Return the degrees of freedom that the pooled variance is worth, by likelihood: (...)."""
    from scipy.special import gammaln

    largest = variances.max(axis=-1, keepdims=True)
    variances = variances / np.where(largest > 0, largest, 1.0)  # so that no power overflows

    def likelihood(worth: float) -> Floats:
        """Return the log likelihood of variances around the likeliest common one.

        Each is F distributed with df and `worth` degrees of freedom, times the common one.
        """
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

    likelihoods = np.stack([likelihood(worth) for worth in WORTHS], axis=-1)
    shares = np.exp(likelihoods - likelihoods.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    found: Floats = 1 / (shares / np.array(WORTHS)).sum(axis=-1)
    return found


FURTHER = 0.4
CLOSEST = 0.95  # a closer correlation is not believed
UNSEEN_SKEW = 1.5  # standard errors of a skewness
UNSEEN_APART = 2.0  # the same where points stand for themselves
_PRIOR_DF = 4.0  # of the common estimate, beside the paired one


@dataclass(frozen=True)
class Errors:
    """Squared standard errors of contrasts, each (..., contrasts); infinite if unknown.

    Attributes:
        paired, common: by each estimate.
        paired_df, common_df: the degrees of freedom of each.
        seeds: the number of seeds that all points of a contrast share.
        skew: the skewness of its series to allow for.
        own_skew: that of the common estimate where it is made of blocks; 0 elsewhere.
        single: the expected squared error if every point had one seed.
    """

    paired: Floats
    paired_df: Floats
    common: Floats
    common_df: Floats
    seeds: Floats
    skew: Floats
    own_skew: Floats
    single: Floats

    def half_widths(self, reach: Callable[[Floats], Floats]) -> Floats:
        """Return how far intervals reach; infinite if unknown.

        `reach` returns for degrees of freedom how many standard errors an interval reaches.
        """
        known = np.isfinite(self.paired) & (self.paired_df > 0)
        worth = self.paired_df + 1
        df = _PRIOR_DF + worth
        with np.errstate(all="ignore"):
            mixed = (_PRIOR_DF * self.common + worth * self.paired) / df
            far = reach(np.where(known, self.paired_df, 1.0))
            far = stretched(far, self.skew / np.sqrt(self.seeds))
            paired = np.where(known, far * np.sqrt(self.paired), np.inf)
            common = stretched(reach(self.common_df), self.own_skew) * np.sqrt(self.common)
            wider = reach(np.where(known, df, 1.0)) * np.sqrt(mixed)
        common = np.where(known & (self.paired > self.common), wider, common)
        return np.fmin(paired, common)


def stretched(far: Floats, skew: Floats) -> Floats:
    """Return a reach in standard errors, stretched for the skewness of an estimate.

    Johnson's correction (JASA 73, 1978), to first order.
    """
    longer: Floats = far + skew * (2 * far**2 + 1) / 6
    return longer


def errors(given: Sample, weights: Floats, spreads: Spreads) -> Errors:
    """Return the errors of contrasts of these weights (contrasts, points)."""
    used, there = weights != 0, given.there.astype(np.float64)
    alone, df = spreads.of(weights, given.counts)
    # The covariance of two means over that of two seeds: (..., points, points), 0 for one point.
    counts = np.maximum(given.counts, 1)
    apart = 1 - np.eye(there.shape[-2])
    both = there @ np.swapaxes(there, -1, -2)
    shared: Floats = apart * both / counts[..., :, None] / counts[..., None, :]
    # The moderated standard deviations, 0 where unknown.
    known = np.isfinite(spreads.variances) & (given.df > 0)
    sds = np.sqrt(np.where(known, spreads.variances, 0.0))
    # The correlations of pairs over the seeds they share, as sums of products over expected sums.
    units = given.residuals / np.where(sds > 0, sds, np.inf)[..., None]
    products = apart * (units @ np.swapaxes(units, -1, -2))
    counts = np.where(sds > 0, given.counts, 0.0)
    both = shared * counts[..., :, None] * counts[..., None, :]
    most = np.maximum(np.maximum(counts[..., :, None], counts[..., None, :]), 1)
    pairs = both * (1 - 1 / most)  # the sum in expectation, at a correlation of 1

    def correlation(*axes: int) -> Floats:
        """Return the mean correlation over these axes of the pairs, 0 to CLOSEST."""
        expected = pairs.sum(axis=axes)
        found = products.sum(axis=axes) / np.where(expected > 0, expected, np.inf)
        clipped: Floats = np.clip(found, 0.0, CLOSEST)
        return clipped

    covariances = shared * sds[..., :, None] * sds[..., None, :]
    signs = (weights, np.abs(weights))
    cross, harm = (((one @ covariances) * one).sum(axis=-1) for one in signs)
    # One point that does not follow the others' seeds gains nothing from how closely they do.
    least = np.where(used, correlation(-1)[..., None, :], np.inf).min(axis=-1)
    rho = np.where(cross < 0, least, correlation(-1, -2)[..., None])
    by_seed = alone + rho * cross
    points = (given.df > 0).sum(axis=-1)
    pooled = spreads.pooled_df[..., None]
    all_df = pooled * (1 - 1 / np.maximum(points, 1))[..., None]  # less the common effect's
    enough = (pooled >= LEAST_DF) & (all_df > 0)

    # Each contrast's deviations by seed, where all of its points have the seed.
    complete = used.astype(np.float64) @ (~given.there).astype(np.float64) == 0
    seeds = complete.sum(axis=-1).astype(np.float64)
    with np.errstate(all="ignore"):
        series = np.where(complete, weights @ given.residuals, 0.0)
        centre = series.sum(axis=-1) / np.maximum(complete.sum(axis=-1), 1)
        series = np.where(complete, series - centre[..., None], 0.0)
        squares = (series**2).sum(axis=-1)
        single = np.where(used, weights**2 * spreads.variances[..., None, :], 0.0).sum(axis=-1)
        ratio = np.maximum(squares / (seeds - 1) / single, 1 - CLOSEST)
        # The share of a skewness common to all seeds that a contrast keeps: 0 to 1.
        kept = np.abs(given.variances**1.5 @ weights.T**3)
        kept = np.nan_to_num(kept / (given.variances @ weights.T**2) ** 1.5, nan=1.0)
        third = (series**3).sum(axis=-1) / seeds / (squares / seeds) ** 1.5
        skew = kept * (np.abs(third) + UNSEEN_SKEW * np.sqrt(6 / seeds))
        weight = np.where(np.isfinite(ratio), np.maximum(seeds - 1, 0), 0.0)
        prior = np.where(np.isfinite(alone), by_seed / alone, 1.0)  # independent, if unseen
        mixed = np.nan_to_num(ratio, posinf=0.0) * weight + _PRIOR_DF * prior
        single = single * mixed / (weight + _PRIOR_DF)
        # Where points have seeds but share too few of them, no series checks the common estimate.
        fewest = np.where(used, given.counts[..., None, :], np.inf).min(axis=-1)
        unchecked = (seeds < 3) & (fewest > seeds)
        shares = np.where(used, np.abs(weights) ** 3 * given.variances[..., None, :] ** 1.5, 0.0)
        thirds = np.abs((given.residuals**3).sum(axis=-1)) / given.counts
        thirds = np.nan_to_num(thirds / ((given.residuals**2).sum(axis=-1) / given.counts) ** 1.5)
        seen = np.nan_to_num((shares * thirds[..., None, :]).sum(axis=-1) / shares.sum(axis=-1))
        own_skew = kept * (seen + UNSEEN_APART * np.sqrt(6 / fewest)) / np.sqrt(fewest)
    paired, paired_df = _by_blocks(given, weights, spreads, df)
    paired = np.where(np.isfinite(alone), paired, np.inf)
    apart_error = np.where(fewest > 2, paired, np.inf)
    common, common_df = by_seed + FURTHER * (1 - rho) * harm, np.minimum(df, all_df)
    return Errors(
        np.where(seeds > 2, paired, np.inf),
        paired_df,
        np.where(enough, np.where(unchecked, apart_error, common), np.inf),
        np.where(enough, np.where(unchecked, paired_df, common_df), 1.0),
        seeds,
        skew,
        np.where(unchecked, own_skew, 0.0),
        single,
    )


def _by_blocks(
    given: Sample, weights: Floats, spreads: Spreads, df: Floats
) -> tuple[Floats, Floats]:
    """Return the paired squared error of contrasts and its degrees of freedom, (..., contrasts).

    Each seed adds its deviations, times the weights over the points' counts, to a contrast. These
    sums are independent, and those of a block are drawn alike. A block of one or two seeds gets the
    most that the points' spreads allow at any correlation, with `df` (..., contrasts) degrees.
    """
    # A seed's points have a random key, so seeds of one block have the same sum; it wraps.
    keys = np.random.default_rng(0).integers(1, 1 << 62, size=given.there.shape[-2])
    block = ((weights != 0) * keys) @ given.there.astype(np.int64)
    order = np.argsort(block, axis=-1, kind="stable")
    block = np.take_along_axis(block, order, axis=-1)
    present, starts = block != 0, np.ones(block.shape, dtype=bool)
    starts[..., 1:] = block[..., 1:] != block[..., :-1]
    number = starts.cumsum().reshape(block.shape) - 1  # no block reaches into another contrast

    def each(values: Floats) -> Floats:
        """Return for each seed the sum over its block of values (..., contrasts, seeds)."""
        found: Floats = np.bincount(number.ravel(), values.ravel())[number]
        return found

    share: Floats = weights / np.maximum(given.counts, 1)[..., None, :]
    known: Floats = np.where(np.isfinite(spreads.variances), spreads.variances, 0.0)[..., None, :]
    there = given.there.astype(np.float64)
    most: Floats = (np.abs(share) * np.sqrt(known) @ there) ** 2
    by_seed: list[Floats] = [share @ given.residuals, share**2 * known @ there, most]
    sums, alone, most = (np.take_along_axis(one, order, axis=-1) for one in by_seed)
    with np.errstate(all="ignore"):
        seeds = each(present.astype(np.float64))
        squares = each((sums - each(sums) / seeds) ** 2)
        own = np.maximum(squares / (seeds - 1), (1 - CLOSEST) * alone)
        parts = np.where(present, np.where(seeds > 2, own, most), 0.0)
        part_df = np.where(seeds > 2, seeds - 2, df[..., None])
        error = parts.sum(axis=-1)
        found = error**2 / (seeds * parts**2 / part_df).sum(axis=-1)
    return error, found


# The share of the squared deviations that remains within the two modes.
REMAINS = 0.05
LEAST_DF_OF_SEEDS = 8
# A point with a smaller share of the widest point's variance says nothing about modes as far apart,
COMPARABLE = 0.1
# unless the widest has this many times the variance of such points: no normal seed lies so far off.
FAR = 64.0


def is_bimodal(groups: Iterable[Sequence[float] | Floats], coarsest: float = np.inf) -> bool:
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
                within = max(total - float(between.max()), len(values) * float(step**2) / 12)
            split.append((len(values), total, within))
    widest = max((total / (n - 1) for n, total, _ in split), default=0.0)
    wide = [one for one in split if one[1] >= COMPARABLE * widest * (one[0] - 1)]
    narrow = [one for one in split if one not in wide]
    before = sum(total for _, total, _ in wide)
    after = sum(within for _, _, within in wide)
    far = widest * sum(n - 1 for n, _, _ in narrow) > FAR * sum(t for _, t, _ in narrow)
    df = sum(n - 2 for n, _, _ in (split if narrow and far else wide))
    return df >= LEAST_DF_OF_SEEDS and before > 0 and after < REMAINS * before
