"""Random numbers that are functions of the seed and the step.

So a checkpoint need not contain the states of random generators.
"""

import hashlib

import numpy as np


def derive(seed: int, *purpose: str | int) -> int:
    """Return a seed below 2^63 for one purpose, for example `derive(seed, "step", 7)`.

    Seeds for different purposes give independent random numbers.
    """
    text = "/".join(map(str, (seed, *purpose)))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def permutation(length: int, seed: int, *purpose: str | int) -> np.ndarray:
    """Return the numbers below `length` in a random order that depends only on the arguments."""
    generator = np.random.Generator(np.random.Philox(key=derive(seed, *purpose)))
    return generator.permutation(length)


class Shuffled:
    """An endless stream of row numbers. Each epoch has every row once, in a new random order."""

    def __init__(self, length: int, seed: int) -> None:
        self._length = length
        self._seed = seed
        self._orders: dict[int, np.ndarray] = {}

    def stretch(self, start: int, count: int) -> np.ndarray:
        """Return `count` row numbers of the stream, beginning at the position `start`."""
        parts = []
        while count:
            epoch, offset = divmod(start, self._length)
            if epoch not in self._orders:
                # Keep the order of the previous epoch, because a batch may span two epochs.
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
