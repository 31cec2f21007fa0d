"""Sentences as long as LM1B's, and rows they are put into, for benchmarks to time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist

import torch

from tasks.lm1b.packing import FirstFit

MEAN, SIGMA = 29.1, 0.6  # of the lengths of LM1B's sentences in pieces, taken as lognormal

Row = list[int]
"""The lengths of the segments of a row."""


def lengths(longest: int, count: int) -> list[int]:
    """Quantiles of the lengths' distribution, in an order that is always the same."""
    normal = NormalDist(math.log(MEAN) - SIGMA**2 / 2, SIGMA)
    drawn = (math.exp(normal.inv_cdf((i + 0.5) / count)) for i in range(count))
    found = [min(max(round(length), 1), longest) for length in drawn]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0)).tolist()
    return [found[place] for place in order]


def packed(lengths: Sequence[int], width: int) -> list[Row]:
    """Return the rows of that many positions which sentences of these lengths are packed into."""
    packer, rows = FirstFit(width), []
    for number, length in enumerate(lengths):
        rows.append(packer.add([number] * length))
    full = [row for row in [*rows, *packer.rest()] if row is not None]
    return [list(Counter(row).values()) for row in full]
