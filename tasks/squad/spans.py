"""From scores of starts and ends to an answer, as BERT's run_squad decodes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Span(NamedTuple):
    """Pieces `first` to `last` of a row, both included, and the sum of their two scores."""

    score: float
    first: int
    last: int


def best_span(
    starts_T: NDArray[np.floating],
    ends_T: NDArray[np.floating],
    may_start_T: NDArray[np.bool_],
    may_end_T: NDArray[np.bool_],
    candidates: int,
    longest: int,
) -> Span | None:
    """Return the best span of at most `longest` pieces, of the best `candidates` starts and ends.

    Those are of all positions; only then are the ones left out where an answer may not start (a
    question, or a piece that another window shows with more context) or may not end. Of equal
    spans the one with the better start wins, then the one with the better end, and of equal scores
    the earlier. None where nothing is left.
    """
    first, last = _largest(starts_T, candidates), _largest(ends_T, candidates)
    lengths = last[None, :] - first[:, None] + 1
    allowed = (lengths >= 1) & (lengths <= longest)
    allowed &= may_start_T[first][:, None] & may_end_T[last][None, :]
    if not allowed.any():
        return None
    sums = starts_T[first].astype(np.float64)[:, None] + ends_T[last][None, :]
    row, column = np.unravel_index(np.argmax(np.where(allowed, sums, -np.inf)), sums.shape)
    return Span(float(sums[row, column]), int(first[row]), int(last[column]))


def _largest(scores_T: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    return np.argsort(-scores_T, kind="stable")[:count]
