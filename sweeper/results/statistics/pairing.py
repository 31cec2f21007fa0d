"""Errors of contrasts between points that share seeds.

Runs with one seed see the same data in the same order and start from the same draws, so points are
correlated: a contrast is surer, or less sure, than independent points would be. There are two
estimates of its error, and intervals use the one that reaches less far.

The *paired* one is the spread of the contrast's own series, one value for each seed that all of its
points share. It is right at any correlation, and has few degrees of freedom. One less than usual
keeps the error of repeated analyses (measured: docs/decisions.md). Where one arm dominates a
contrast, its skewness does not cancel, and t errs to one side (Johnson, JASA 73, 1978): `stretch`.

The *common* one has the points' moderated variances and one correlation for all pairs of points, as
an effect of the seed on every point gives. It allows for any pair a further correlation of
`FURTHER`, in the direction that does harm. Where the contrast's own series spreads more than that,
the two are *mixed*, by degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sweeper.results.statistics.spreads import LEAST_DF, Floats, Sample, Spreads

FURTHER = 0.4
CLOSEST = 0.95  # a closer correlation is not believed
UNSEEN_SKEW = 1.5  # standard errors of a skewness
_PRIOR_DF = 4.0  # of the common estimate, beside the paired one


@dataclass(frozen=True)
class Errors:
    """Squared standard errors of contrasts, each (..., contrasts); infinite if unknown.

    Attributes:
        paired, common, mixed: by each estimate.
        common_df: the degrees of freedom of the common one.
        seeds: the number of seeds that all points of a contrast share.
        skew: the skewness of its series to allow for.
        single: the expected squared error if every point had one seed.
    """

    paired: Floats
    common: Floats
    common_df: Floats
    seeds: Floats
    skew: Floats
    single: Floats

    def half_widths(self, reach: Callable[[Floats], Floats]) -> Floats:
        """Return how far intervals reach; infinite if unknown.

        `reach` returns for degrees of freedom how many standard errors an interval reaches.
        """
        paired_df, df = self.seeds - 2, _PRIOR_DF + self.seeds - 1
        known = np.isfinite(self.paired) & (paired_df > 0)
        with np.errstate(all="ignore"):
            mixed = (_PRIOR_DF * self.common + (self.seeds - 1) * self.paired) / df
            far = reach(np.where(known, paired_df, 1.0))
            # Johnson's correction, to first order
            longer = 1 + self.skew * (2 * far**2 + 1) / (6 * np.sqrt(self.seeds) * far)
            paired = np.where(known, far * longer * np.sqrt(self.paired), np.inf)
            common = reach(self.common_df) * np.sqrt(self.common)
            wider = reach(np.where(known, df, 1.0)) * np.sqrt(mixed)
        common = np.where(known & (self.paired > self.common), wider, common)
        return np.fmin(paired, common)


def errors(given: Sample, weights: Floats, spreads: Spreads) -> Errors:
    """Return the errors of contrasts of these weights (contrasts, points)."""
    return _Pairing(given, weights, spreads).errors()


@dataclass(frozen=True)
class _Pairing:
    given: Sample
    weights: Floats
    spreads: Spreads

    @cached_property
    def shared(self) -> Floats:
        """The covariance of two means over that of two seeds: (..., points, points), 0 for one."""
        there = self.given.there.astype(np.float64)
        apart = 1 - np.eye(there.shape[-2])
        counts = np.maximum(self.given.counts, 1)
        both = there @ np.swapaxes(there, -1, -2)
        found: Floats = apart * both / counts[..., :, None] / counts[..., None, :]
        return found

    @cached_property
    def sds(self) -> Floats:
        """The moderated standard deviations, 0 where unknown."""
        known = np.isfinite(self.spreads.variances) & (self.given.df > 0)
        return np.sqrt(np.where(known, self.spreads.variances, 0.0))

    @cached_property
    def correlation(self) -> Floats:
        """The mean correlation of two points over the seeds they share, 0 to CLOSEST: (...)."""
        scale = np.where(self.sds > 0, self.sds, np.inf)
        units = self.given.residuals / scale[..., None]
        products = units.sum(axis=-2) ** 2 - (units**2).sum(axis=-2)
        counts = np.where(self.sds > 0, self.given.counts, 0.0)
        both = self.shared * counts[..., :, None] * counts[..., None, :]
        most = np.maximum(np.maximum(counts[..., :, None], counts[..., None, :]), 1)
        pairs = (both * (1 - 1 / most)).sum(axis=(-1, -2))  # in expectation, at a correlation of 1
        found = products.sum(axis=-1) / np.where(pairs > 0, pairs, np.inf)
        rho: Floats = np.clip(found, 0.0, CLOSEST)
        return rho

    def errors(self) -> Errors:
        weights, used = self.weights, self.weights != 0
        alone, df = self.spreads.of(weights, self.given.counts)
        covariances = self.shared * self.sds[..., :, None] * self.sds[..., None, :]
        cross, harm = (_forms(one, covariances) for one in (weights, np.abs(weights)))
        rho = self.correlation[..., None]
        by_seed = alone + rho * cross
        points = (self.given.df > 0).sum(axis=-1)
        pooled = self.spreads.pooled_df[..., None]
        all_df = pooled * (1 - 1 / np.maximum(points, 1))[..., None]  # less the common effect's
        enough = (pooled >= LEAST_DF) & (all_df > 0)

        series, there = self._series()
        seeds = there.sum(axis=-1).astype(np.float64)
        with np.errstate(all="ignore"):
            squares = (series**2).sum(axis=-1)
            single = np.where(used, weights**2 * self.spreads.variances[..., None, :], 0.0)
            single = single.sum(axis=-1)
            ratio = np.maximum(squares / (seeds - 1) / single, 1 - CLOSEST)
            counts = np.where(used, self.given.counts[..., None, :], np.nan)
            nested = seeds / (np.nanmin(counts, axis=-1) * np.nanmax(counts, axis=-1))
            less = alone + (ratio - 1) * single * nested  # only seeds that are shared correlate
            paired = np.where(ratio < 1, less, ratio * alone)
            third = (series**3).sum(axis=-1) / seeds / (squares / seeds) ** 1.5
            skew = self._imbalance() * (np.abs(third) + UNSEEN_SKEW * np.sqrt(6 / seeds))
            weight = np.where(np.isfinite(ratio), np.maximum(seeds - 1, 0), 0.0)
            prior = np.where(np.isfinite(alone), by_seed / alone, 1.0)  # independent, if unseen
            mixed = np.nan_to_num(ratio, posinf=0.0) * weight + _PRIOR_DF * prior
            single = single * mixed / (weight + _PRIOR_DF)
        known = np.isfinite(paired) & (seeds > 2)
        return Errors(
            np.where(known, paired, np.inf),
            np.where(enough, by_seed + FURTHER * (1 - rho) * harm, np.inf),
            np.where(enough, np.minimum(df, all_df), 1.0),
            seeds,
            skew,
            single,
        )

    def _series(self) -> tuple[Floats, Floats]:
        """Return each contrast's deviations by seed and which seeds all of its points share."""
        missing = (self.weights != 0).astype(np.float64) @ (~self.given.there).astype(np.float64)
        there = missing == 0
        with np.errstate(all="ignore"):
            series = np.where(there, self.weights @ self.given.residuals, 0.0)
            centre = series.sum(axis=-1) / np.maximum(there.sum(axis=-1), 1)
        return np.where(there, series - centre[..., None], 0.0), there

    def _imbalance(self) -> Floats:
        """Return the share of a skewness common to all seeds that a contrast keeps: 0 to 1."""
        variances = self.given.variances
        with np.errstate(all="ignore"):
            third = np.abs(variances**1.5 @ self.weights.T**3)
            found: Floats = third / (variances @ self.weights.T**2) ** 1.5
        return np.nan_to_num(found, nan=1.0)


def _forms(weights: Floats, matrices: Floats) -> Floats:
    """Return the quadratic forms of rows of weights: (..., contrasts)."""
    found: Floats = ((weights @ matrices) * weights).sum(axis=-1)
    return found
