"""Which points' next seeds narrow the contrasts that are still needed most, for what they cost."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sweeper.results.statistics.boundary import FIRST, Floats


def allocated(
    weights: Floats,
    needs: Floats,
    counts: Floats,
    *,
    costs: Floats,
    most: int,
    runs: int | npt.NDArray[np.int_],
) -> Floats:
    """How many seeds each point gets next, (..., points): `runs` in all or fewer.

    First of all every point of these contrasts gets FIRST seeds, whatever `runs` is: there is no
    answer without. Then, one by one, the seed that takes the largest share off the squared errors,
    for its cost; no contrast is narrowed further than its need. All points are taken to spread
    alike: where few seeds lie together by luck, giving that point fewer would keep the luck.

    Args:
        weights: (contrasts, points), of all contrasts of all undecided claims.
        needs: (..., contrasts), of `price`: seeds a point in all, 0 of what is not needed.
        counts: (..., points), the seeds that are there.
        costs: (points,), of one run, above 0.
        most: seeds that no point goes beyond.
        runs: how many to train at once; (...) where experiments differ.
    """
    needed = needs > 0
    used = np.einsum("...c,cp->...p", needed, weights != 0) > 0
    before, counts = counts, np.maximum(counts, np.where(used, min(FIRST, most), 0))
    squares = np.where(needed[..., None], weights**2, 0.0)
    targets = squares.sum(axis=-1) / np.where(needed, needs, np.inf)
    left = runs - (counts - before).sum(axis=-1)
    while (left > 0).any():
        gains = _gains(squares, targets, counts) / costs
        gains = np.where((counts < most) & (left > 0)[..., None], gains, 0.0)
        best = gains.argmax(axis=-1)[..., None]
        more = np.take_along_axis(gains, best, axis=-1) > 0
        np.put_along_axis(counts, best, np.take_along_axis(counts, best, axis=-1) + more, axis=-1)
        left = np.where(more[..., 0], left - 1, 0)
    return counts - before


def _gains(squares: Floats, targets: Floats, counts: Floats) -> Floats:
    """By how much the next seed of each point narrows what is wider than its target: (..., points).

    As shares of the squared errors, summed over contrasts.
    """
    seeds = np.maximum(counts, 1)  # of a point that no contrast needs, there may be none
    errors = (squares / seeds[..., None, :]).sum(axis=-1)
    shares = np.where(errors > targets * (1 + 1e-9), 1 / np.maximum(errors, 1e-300), 0.0)
    gains: Floats = np.einsum("...c,...cp->...p", shares, squares) / (seeds * (seeds + 1))
    return gains
