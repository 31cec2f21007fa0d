"""Random numbers as functions of counters, so that no generator state must be saved."""

import hashlib

import numpy as np


def derive(seed: int, *purpose: str | int) -> int:
    """Return a seed below 2^63 for one purpose, independent of other seeds and purposes."""
    text = "/".join(map(str, (seed, *purpose)))
    return (
        int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
        >> 1
    )


def permutation(length: int, seed: int, *purpose: str | int) -> np.ndarray:
    """Return the numbers below `length` in a random order, a function of only the arguments."""
    generator = np.random.Generator(np.random.Philox(key=derive(seed, *purpose)))
    return generator.permutation(length)


class Shuffled:
    """An endless stream of row numbers. Each epoch has all rows once, in an order of its own."""

    def __init__(self, length: int, seed: int) -> None:
        self._length = length
        self._seed = seed
        self._orders: dict[int, np.ndarray] = {}

    def stretch(self, start: int, count: int) -> np.ndarray:
        """Return the row numbers at `start` to `start + count` of the stream."""
        parts = []
        while count:
            epoch, offset = divmod(start, self._length)
            if epoch not in self._orders:
                self._orders = {
                    e: order for e, order in self._orders.items() if e == epoch - 1
                }
                self._orders[epoch] = permutation(
                    self._length, self._seed, "epoch", epoch
                )
            part = self._orders[epoch][offset : offset + count]
            parts.append(part)
            start, count = start + len(part), count - len(part)
        return np.concatenate(parts)
