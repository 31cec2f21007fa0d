"""Random numbers by counter for whole arrays: a number depends on its own counters alone.

`numpy.random` has a state that numbers are drawn from one after the other. Here the number of a
row is the same whichever rows stand beside it, so a batch is a function of which rows it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counters = NDArray[np.unsignedinteger[Any]] | NDArray[np.signedinteger[Any]]

# SplitMix64 (Steele, Lea, Flood 2014): a counter in steps of the first, then this mixing.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))
_LAST_SHIFT = 31
_PLACES = 1 << 20  # numbers that one purpose may draw for one row


class CounterRng:
    """What is drawn for each of B rows; a row is told by a seed and its counters."""

    def __init__(self, seed: int, counters: Sequence[Counters]) -> None:
        """`counters` are arrays (B,) of whole numbers from 0; the seed is below 2^63."""
        keys_B = np.full(len(counters[0]), seed, np.uint64)
        for counter_B in counters:
            keys_B = _mixed(keys_B + _STEP * (counter_B.astype(np.uint64) + np.uint64(1)))
        self._keys_B = keys_B

    def uniform(self, purpose: int) -> NDArray[np.float64]:
        """Return one number a row, (B,), at least 0 and below 1."""
        return self.uniforms(purpose, 1)[:, 0]

    def uniforms(self, purpose: int, count: int) -> NDArray[np.float64]:
        """Return `count` numbers a row, (B, count), at least 0 and below 1."""
        assert count <= _PLACES, f"{count} numbers of one purpose"
        first = purpose * _PLACES + 1
        places = np.arange(first, first + count, dtype=np.uint64)
        bits = _mixed(self._keys_B[:, None] + _STEP * places)
        return np.ldexp((bits >> np.uint64(11)).astype(np.float64), -53)

    def whole(self, purpose: int, limits_B: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a whole number a row, (B,), at least 0 and below the row's limit."""
        return (self.uniform(purpose) * limits_B).astype(np.int64)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for shift, factor in _MIX:
        values = (values ^ (values >> np.uint64(shift))) * factor
    return values ^ (values >> np.uint64(_LAST_SHIFT))
