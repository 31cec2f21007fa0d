"""Confidence intervals that stay valid for any number of interim analyses.

The boundary z(n) depends only on the number of seeds n. Take the mean of n independent normal
values in units of its standard error. The chance that it ever exceeds z(n) on one side, in any
interim analysis from `FIRST` seeds on, is at most `level`. The boundary does not depend on which
analyses were made, so another analysis costs nothing and stopping early loses nothing.

Up to `DESIGNED` seeds, z(n) = c * (DESIGNED / n) ** STEEPNESS. This is the family of Wang and
Tsiatis (Biometrics 43, 1987) between the shapes of Pocock and of O'Brien and Fleming, close to
Pocock's. The recursion of Armitage, McPherson and Rowe (JRSS A 132, 1969) gives c, with an analysis
after every seed.

The share `LATER` of the level is reserved for more seeds: half of it for 30 to 60 seeds, half of
the rest for 60 to 120, and so on. Within each range, z is constant and large enough even for
continuous monitoring (Siegmund, Sequential Analysis, 1985, section 4.5).

If the spread is estimated, z is replaced by the t with the same tail probability (Jennison and
Turnbull, Group Sequential Methods, 2000, section 11.3).
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
# The share of the significance level that is reserved for more than DESIGNED seeds. It makes up for
# the poor variance estimates of few seeds: in steps of 0.05, it is the smallest share for which at
# most 5 % of the experiments simulated in docs/decisions.md have a wrong verdict.
LATER = 0.55
_NODES_PER_SD = 3


def bound(n: int, level: float) -> float:
    """Return the boundary z(n) for n seeds and a one-sided level. It is infinite below FIRST seeds.

    The level must be between 0 and 1/4.
    """
    if n < FIRST:
        return math.inf
    if n <= DESIGNED:
        return _constant(level) * float((DESIGNED / n) ** STEEPNESS)
    return _late(level, math.ceil(math.log2(n / DESIGNED)))


@lru_cache(maxsize=4096)
def reach(n: int, df: float, level: float) -> float:
    """Return the boundary for n seeds, in units of an estimated standard error.

    The standard error has `df` > 0 degrees of freedom. `level` is one-sided.
    """
    from scipy.special import ndtr, stdtrit

    return -float(stdtrit(df, ndtr(-bound(n, level))))


def crossed(zs: Floats) -> float:
    """Return the chance that the mean leaves [-z, z] in any of several analyses.

    There is an analysis after FIRST seeds, after FIRST + 1 seeds, and so on. `zs` holds the z of
    each analysis in standard errors, of shape (analyses,).
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
    """Return nodes and weights on [-edge, edge], dense enough for steps of standard deviation 1."""
    nodes, weights = _legendre(32 + math.ceil(edge * _NODES_PER_SD))
    return edge * nodes, edge * weights


_legendre = cache(np.polynomial.legendre.leggauss)


def _normal(x: Floats, sd: float) -> Floats:
    return np.exp(-0.5 * (x / sd) ** 2) / (sd * math.sqrt(2 * math.pi))


@cache
def _constant(level: float) -> float:
    """Return the factor c of the boundary (see the docstring of this module).

    The chance to cross the boundary on either side is 2 * level * (1 - LATER).
    """
    shape = (DESIGNED / np.arange(FIRST, DESIGNED + 1)) ** STEEPNESS
    return _solved(lambda c: crossed(c * shape), 2 * level * (1 - LATER))


@cache
def _late(level: float, doubling: int) -> float:
    """Return z for m to 2 * m seeds, where m = DESIGNED * 2 ** (doubling - 1)."""
    share = 2 * level * LATER / 2**doubling

    def ever(z: float) -> float:
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return density * ((z - 1 / z) * math.log(2) + 4 / z)

    return _solved(ever, share)


def _solved(falls: Callable[[float], float], to: float) -> float:
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
    """Return the newest estimates with the intersection of all intervals.

    If an intersection is empty, its low end is above its high end.
    """
    lows = np.max([one.lows for one in analyses], axis=0)
    highs = np.min([one.highs for one in analyses], axis=0)
    return Intervals(analyses[-1].values, lows, highs)
