"""Confidence intervals that stay valid for any number of interim analyses.

After n seeds, an interval is the mean plus or minus z(n) standard errors. The boundary z(n) is
chosen for independent normal values: with probability at most `level`, the mean is ever more than
z(n) standard errors above the true mean, in any interim analysis from `FIRST` seeds on. The same
holds below. The boundary depends on n alone, and not on which analyses were made. So further
analyses need no correction, and stopping early loses nothing.

Up to `DESIGNED` seeds, z(n) = c * (DESIGNED / n) ** STEEPNESS. This shape belongs to the family of
Wang and Tsiatis (Biometrics 43, 1987). It lies between the shapes of Pocock and of O'Brien and
Fleming, close to Pocock's. The recursion of Armitage, McPherson and Rowe (JRSS A 132, 1969)
computes c for an analysis after every seed.

The share `LATER` of the level is reserved for more than `DESIGNED` seeds: half of it for 30 to 60
seeds, half of the rest for 60 to 120, and so on. Within each range, z is constant and large enough
even for continuous monitoring (Siegmund, Sequential Analysis, 1985, section 4.5).

If the standard error is estimated, the quantile of t with the same tail probability replaces z
(Jennison and Turnbull, Group Sequential Methods, 2000, section 11.3).
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FIRST = 3
DESIGNED = 30
STEEPNESS = 0.05
# The share of the significance level that is reserved for more than DESIGNED seeds. A larger share
# gives wider intervals up to DESIGNED seeds, which makes up for poor variance estimates. Of the
# multiples of 0.05, this is the smallest with which at most 5 % of the experiments simulated in
# docs/decisions.md have a wrong verdict.
LATER = 0.55
_NODES_PER_SD = 3


def bound(n: int, level: float) -> float:
    """Return the boundary z(n) for n >= FIRST seeds and a one-sided level between 0 and 1/4."""
    if n <= DESIGNED:
        return _constant(level) * float((DESIGNED / n) ** STEEPNESS)
    return _late(level, math.ceil(math.log2(n / DESIGNED)))


@lru_cache(maxsize=4096)
def reach(n: int, df: float, level: float) -> float:
    """Return the boundary for n >= FIRST seeds, in units of an estimated standard error.

    The standard error has `df` > 0 degrees of freedom. `level` is one-sided.
    """
    from scipy.special import ndtr, stdtrit

    return -float(stdtrit(df, ndtr(-bound(n, level))))


def crossed(zs: Floats) -> float:
    """Return the probability that a mean crosses the boundary in any analysis, if the truth is 0.

    The mean is that of independent normal values. The first analysis has FIRST values, and each
    further one has one value more. In analysis i, the mean crosses the boundary if its absolute
    value exceeds `zs[i]` standard errors.
    """
    edges = zs * np.sqrt(np.arange(FIRST, FIRST + len(zs)))
    nodes, weights = _quadrature(edges[0])
    inside = _normal(nodes, math.sqrt(FIRST)) * weights
    for edge in edges[1:]:
        following, weights = _quadrature(edge)
        inside = (_normal(following[:, None] - nodes, 1.0) @ inside) * weights
        nodes = following
    return float(1 - inside.sum())


def _quadrature(edge: float) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights on [-edge, edge].

    They are dense enough to integrate a normal density of standard deviation 1.
    """
    nodes, weights = _legendre(32 + math.ceil(edge * _NODES_PER_SD))
    return edge * nodes, edge * weights


_legendre = cache(np.polynomial.legendre.leggauss)


def _normal(x: Floats, sd: float) -> Floats:
    return np.exp(-0.5 * (x / sd) ** 2) / (sd * math.sqrt(2 * math.pi))


@cache
def _constant(level: float) -> float:
    """Return the factor c of the boundary (see the docstring of this module).

    With this factor, a mean without an effect crosses the upper or the lower boundary within
    DESIGNED seeds with the probability 2 * level * (1 - LATER).
    """
    shape = (DESIGNED / np.arange(FIRST, DESIGNED + 1)) ** STEEPNESS
    return _solved(lambda c: crossed(c * shape), 2 * level * (1 - LATER))


@cache
def _late(level: float, doubling: int) -> float:
    """Return z for more than m and at most 2m seeds, where m = DESIGNED * 2 ** (doubling - 1)."""
    share = 2 * level * LATER / 2**doubling

    def ever(z: float) -> float:
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return density * ((z - 1 / z) * math.log(2) + 4 / z)

    return _solved(ever, share)


def _solved(falls: Callable[[float], float], to: float) -> float:
    """Return the argument between 1 and 40 at which a falling function has the value `to`."""
    low, high = 1.0, 40.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if falls(middle) > to else (low, middle)
    return high


class Intervals(NamedTuple):
    """Estimates of contrasts and the ends of their intervals, each of shape (contrasts,).

    An unknown end is infinite.
    """

    values: Floats
    lows: Floats
    highs: Floats


def intersection(analyses: Sequence[Intervals]) -> Intervals:
    """Return the newest estimates, each with the intersection of its intervals in all analyses.

    If an intersection is empty, its low end is above its high end.
    """
    lows = np.max([one.lows for one in analyses], axis=0)
    highs = np.min([one.highs for one in analyses], axis=0)
    return Intervals(analyses[-1].values, lows, highs)
