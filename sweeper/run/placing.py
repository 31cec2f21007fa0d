"""Which runs share a GPU: as many as its memory is predicted to hold, and as its work gains by.

Each is granted a part of the memory, which it is to be held to (as by PyTorch's
`set_per_process_memory_fraction`): a prediction that was wrong hurts that run and no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

USED = 0.95
"""Of the memory that is free, what runs are granted at most."""
MOST, MOST_HOST_BOUND = 2, 3
"""Runs on a GPU; of those that wait for the host, which leave the GPU idle meanwhile, one more."""


class Share(NamedTuple):
    """What a run is predicted to need of a GPU's memory, or is granted of it, in GB."""

    gigabytes: float
    is_host_bound: bool = False


def placed(
    need: Share, gpus: Sequence[Sequence[Share]], free_gb: float
) -> tuple[int, Share] | None:
    """The GPU that takes a run, and what it is granted there; None while all are full.

    Args:
        gpus: what the runs of each GPU were granted.
        free_gb: what each of them had free before any of these.
    """
    for gpu in sorted(range(len(gpus)), key=lambda gpu: len(gpus[gpu])):
        if (share := granted(need, gpus[gpu], free_gb)) is not None:
            return gpu, share
    return None


def granted(need: Share, beside: Sequence[Share], free_gb: float) -> Share | None:
    """What a run may take beside others: what it needs, or an equal part where that is more.

    Alone it is let try whatever it is said to need.
    """
    waits = need.is_host_bound
    most = MOST_HOST_BOUND if waits and all(run.is_host_bound for run in beside) else MOST
    left = USED * free_gb - sum(run.gigabytes for run in beside)
    if beside and (len(beside) >= most or need.gigabytes > left):
        return None
    equal = USED * free_gb / (MOST_HOST_BOUND if waits else MOST)
    return Share(min(max(need.gigabytes, equal), left), waits)
