"""How loss falls with size: power laws, and from two of them the parameters one arm saves.

A law is a straight line through log loss over log size, by least squares over the means of the
points. (A third constant, the loss of an endless model, cannot be told from a handful of points.)

Intervals are of a parametric bootstrap: every mean is drawn again with the spread between seeds,
pooled as everywhere else, and the laws are fitted again. They cover the noise of seeds; they do not
cover that loss may follow another law, of which `misfit` gives an idea.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.results.statistics.estimates import (
    LEVEL,
    RESAMPLES,
    Difference,
    Estimate,
    Floats,
    Spread,
)

Curve = Sequence[tuple[float, Estimate]]
"""(size, loss) of the points of one arm; both above 0."""

_LARGEST_LOG = 300.0


@dataclass(frozen=True)
class PowerLaw:
    """loss = scale * size ** -exponent; `scale` and `exponent` may be arrays of equal shape."""

    scale: Floats
    exponent: Floats

    def size_at(self, loss: float) -> Floats:
        """The size that has this loss; NaN where loss does not fall with size."""
        falls = self.exponent > 0
        logs = (np.log(self.scale) - np.log(loss)) / np.where(falls, self.exponent, 1.0)
        # A law that hardly falls asks for sizes that no float holds; ratios of two must be ones.
        sizes: Floats = np.where(falls, np.exp(np.clip(logs, -_LARGEST_LOG, _LARGEST_LOG)), np.nan)
        return sizes


@dataclass(frozen=True)
class Saving:
    """What one arm saves against another at one loss.

    Attributes:
        loss: the lowest that both arms have measured.
        share: 1 - size / size of the other, with its interval.
        size, other_size: what the laws say each needs.
        exponent, other_exponent: of the laws.
        misfit: the largest |measured / law - 1| of any point.
    """

    loss: float
    share: Difference
    size: float
    other_size: float
    exponent: float
    other_exponent: float
    misfit: float


def power_law(sizes: Sequence[float], losses: Floats) -> PowerLaw:
    """The law through points of these sizes; `losses` is (..., points), the laws have its `...`.

    Raises:
        ValueError: fewer than two different sizes.
    """
    x = np.log(np.asarray(sizes, dtype=np.float64))
    if len(set(sizes)) < 2:
        raise ValueError("a power law needs two sizes")
    y = np.log(losses)
    centred = x - x.mean()
    slope = (y * centred).sum(axis=-1) / (centred**2).sum()
    return PowerLaw(np.exp(y.mean(axis=-1) - slope * x.mean()), -slope)


def saved(arm: Curve, other: Curve, level: float = LEVEL) -> Saving | None:
    """The share of the size of `other` that `arm` does without at equal loss.

    None where an arm has fewer than two sizes, where its loss does not fall with size, or where no
    loss lies within the measured range of both.
    """
    curves = [sorted(curve, key=lambda entry: entry[0]) for curve in (arm, other)]
    if any(len({size for size, _ in curve}) < 2 for curve in curves):
        return None
    means = [np.array([known.mean for _, known in curve]) for curve in curves]
    loss = float(max(values.min() for values in means))
    sizes = [[size for size, _ in curve] for curve in curves]
    laws = [power_law(at, values) for at, values in zip(sizes, means, strict=True)]
    needed, instead = (float(law.size_at(loss)) for law in laws)
    if loss > min(values.max() for values in means) or not np.isfinite(needed + instead):
        return None
    return Saving(
        loss=loss,
        share=Difference(1 - needed / instead, *(_interval(curves, sizes, loss, level))),
        size=needed,
        other_size=instead,
        exponent=float(laws[0].exponent),
        other_exponent=float(laws[1].exponent),
        misfit=max(map(_misfit, laws, sizes, means)),
    )


def _interval(
    curves: Sequence[Curve], sizes: Sequence[Sequence[float]], loss: float, level: float
) -> tuple[float, float] | tuple[None, None]:
    """The ends of the interval of the share; None where seeds say too little for one."""
    if any(known.spread is None for curve in curves for _, known in curve):
        return None, None
    again = _drawn_again([known for curve in curves for _, known in curve])
    split = np.split(again, [len(curves[0])], axis=-1)
    laws = [power_law(at, values) for at, values in zip(sizes, split, strict=True)]
    shares = 1 - laws[0].size_at(loss) / laws[1].size_at(loss)
    lost = np.isnan(shares)
    if lost.mean() > (1 - level) / 2:  # the seeds leave open whether loss falls with size at all
        return None, None
    low, high = np.percentile(shares[~lost], [50 * (1 - level), 50 * (1 + level)])
    return float(low), float(high)


def _drawn_again(means: Sequence[Estimate]) -> Floats:
    """(RESAMPLES, points): each mean with the error it may have; the same numbers always.

    A spread that points share is one unknown: it is drawn once a resample for all of them.
    """
    draw = np.random.default_rng(0)
    spreads: dict[Spread, Floats] = {}
    columns = []
    for known in means:
        assert known.spread is not None
        if known.spread not in spreads:
            df = known.spread.df
            spreads[known.spread] = known.spread.sd * np.sqrt(df / draw.chisquare(df, RESAMPLES))
        error = spreads[known.spread] / np.sqrt(known.n) * draw.standard_normal(RESAMPLES)
        columns.append(np.maximum(known.mean + error, known.mean * 1e-3))  # a loss is above 0
    return np.stack(columns, axis=-1)


def _misfit(law: PowerLaw, sizes: Sequence[float], means: Floats) -> float:
    fitted = law.scale * np.asarray(sizes) ** -law.exponent
    return float(np.abs(means / fitted - 1).max())
