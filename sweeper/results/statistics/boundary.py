"""How far an estimate must lie from a value to exclude it, when data are looked at again and again.

A boundary z(n) is a function of the number of seeds alone, such that a mean of n independent normal
values, in units of its standard error, ever goes beyond z(n) on one side with a chance of at most
`level`, whenever and however often one looks from `FIRST` seeds on, for ever. Nothing need be known
of the looks that were made, so looking again costs nothing and whoever stops early loses nothing.

Up to `DESIGNED` seeds z(n) = c * (DESIGNED / n) ** STEEPNESS: the family of Wang and Tsiatis
(Biometrics 43, 1987) between the shapes of Pocock and O'Brien and Fleming, near the former; c is
solved for by the recursion of Armitage, McPherson and Rowe (JRSS A 132, 1969), a look at every
seed. The share `LATER` of the level is kept for what comes after: half of it for the seeds from 30
to 60, half of the rest for those to 120, and so on, z being constant within each and so large that
even a continuous look would be paid for (Siegmund, Sequential Analysis, 1985, section 4.5).

With a spread that is estimated, t takes the place of z at the same tail probability (Jennison and
Turnbull, Group Sequential Methods, 2000, section 11.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FIRST = 3
DESIGNED = 30
STEEPNESS = 0.05
LATER = 0.1
_NODES_PER_SD = 3


def bound(n: npt.ArrayLike, level: float) -> Floats:
    """z(n) of any number of seeds from FIRST on, whole or not; infinite below; `level` one-sided.

    Raises:
        ValueError: a level that is not between 0 and 1/4.
    """
    if not 0 < level < 0.25:
        raise ValueError(f"no boundary of level {level}")
    seeds = np.asarray(n, dtype=np.float64)
    early = _constant(level) * (DESIGNED / np.maximum(seeds, 1)) ** STEEPNESS
    doublings = np.ceil(np.log2(np.maximum(seeds / DESIGNED, 1))).astype(np.intp)
    late = np.array([_late(level, doubling) for doubling in range(int(doublings.max()) + 1)])
    z: Floats = np.where(doublings > 0, late[doublings], early)
    return np.where(seeds < FIRST, np.inf, z)


def reach(n: npt.ArrayLike, df: npt.ArrayLike, level: float) -> Floats:
    """The same in standard errors that were estimated with `df` > 0 degrees of freedom."""
    from scipy.special import ndtr, stdtrit

    with np.errstate(invalid="ignore"):
        t: Floats = -stdtrit(np.asarray(df, dtype=np.float64), ndtr(-bound(n, level)))
    return np.where(np.isfinite(t), t, np.inf)


def crossed(zs: Floats, drift: float = 0.0) -> Floats:
    """By each of the looks after FIRST, FIRST + 1, ... seeds: the chance to have left -z to z.

    `zs` (looks,) are in standard errors; a seed adds `drift` of its own standard deviation.
    """
    places = np.arange(FIRST, FIRST + len(zs), dtype=np.float64)
    edges = zs * np.sqrt(places)
    nodes, weights = _quadrature(edges[0])
    kept = _normal(nodes - drift * FIRST, math.sqrt(FIRST)) * weights
    inside = [kept.sum()]
    for _, edge in pairwise(edges):
        following, weights = _quadrature(edge)
        step = following[:, None] - nodes[None, :] - drift
        kept = (_normal(step, 1.0) @ kept) * weights
        nodes = following
        inside.append(kept.sum())
    return 1 - np.array(inside)


def _quadrature(edge: float) -> tuple[Floats, Floats]:
    """Nodes and weights between -edge and edge: dense beside a step of standard deviation 1."""
    nodes, weights = _legendre(32 + math.ceil(edge * _NODES_PER_SD))
    return edge * nodes, edge * weights


_legendre = cache(np.polynomial.legendre.leggauss)


def _normal(x: Floats, sd: float) -> Floats:
    density: Floats = np.exp(-0.5 * (x / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
    return density


@cache
def _constant(level: float) -> float:
    """The c of this module's head: both sides together cross with 2 * level * (1 - LATER)."""
    looks = np.arange(FIRST, DESIGNED + 1)
    shape = (DESIGNED / looks) ** STEEPNESS
    return _solved(lambda c: float(crossed(c * shape)[-1]), 2 * level * (1 - LATER))


@cache
def _late(level: float, doubling: int) -> float:
    """z from DESIGNED * 2 ** (doubling - 1) to twice as many seeds; of no use for doubling 0."""
    share = 2 * level * LATER / 2 ** max(doubling, 1)

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
