"""A straight line through estimates with intervals, and how far it is known beyond them.

Weighted least squares: an estimate counts by one over the square of its interval's half width. The
band has the confidence of these intervals, if the truth is a line; that it is one nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.results.statistics.boundary import Floats
from sweeper.results.statistics.contrasts import Intervals

_FARTHEST = 6.0  # decades that are looked through for where a line reaches a level


@dataclass(frozen=True)
class Line:
    """A line; `spread` (2, 2) is the covariance of its ends in squares of half widths."""

    coefficients: Floats
    spread: Floats
    last: float

    def at(self, places: Sequence[float] | Floats) -> Intervals:
        """The line and its band at places, each (places,)."""
        design = np.stack([np.ones(len(places)), np.asarray(places, dtype=np.float64)], axis=1)
        values = design @ self.coefficients
        half = np.sqrt(np.einsum("ij,jk,ik->i", design, self.spread, design))
        return Intervals(values, values - half, values + half)

    def reaches(self, level: float) -> list[float | None]:
        """Where beyond the last estimate it is at a level: the line, the soonest, the latest.

        None for what does not come to it within six decades; 0 decades where it is there already.
        """
        places = np.linspace(self.last, self.last + _FARTHEST, 601)
        band = self.at(places)
        found: list[float | None] = []
        for ends in (band.values, band.highs, band.lows):
            (above,) = np.nonzero(ends >= level)
            found.append(float(places[above[0]]) if len(above) else None)
        return found


def line(places: Sequence[float], values: Sequence[float], halves: Sequence[float]) -> Line:
    """The line through values with intervals of these half widths; two places at least."""
    design = np.stack([np.ones(len(places)), np.asarray(places, dtype=np.float64)], axis=1)
    weights = 1.0 / np.square(np.asarray(halves, dtype=np.float64))
    spread: Floats = np.linalg.inv(design.T @ (design * weights[:, None])).astype(np.float64)
    return Line(spread @ design.T @ (weights * np.asarray(values)), spread, max(places))
