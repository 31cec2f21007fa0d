"""Batches of named tensors, and moving them to a device."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

Batch = dict[str, Tensor]
"""Named tensors of one batch, on the CPU until the loop moves them."""


def moved(batch: Batch, device: torch.device) -> Batch:
    """Return the batch on a device; the copy does not make the host wait."""
    if device.type == "cpu":
        return batch
    return {key: tensor.to(device, non_blocking=True) for key, tensor in pinned(batch).items()}


def pinned(batch: Batch) -> Batch:
    """Return the batch in memory that a GPU fetches while the host goes on."""
    return {
        key: tensor if tensor.device.type != "cpu" or tensor.is_pinned() else tensor.pin_memory()
        for key, tensor in batch.items()
    }


def prefetched(batches: Iterable[Batch], device: torch.device) -> Iterator[Batch]:
    """Yield batches on a device. On a GPU a thread builds and pins the next one meanwhile."""
    if device.type != "cuda":
        yield from batches
        return
    source = iter(batches)

    def following() -> Batch | None:
        batch = next(source, None)
        return None if batch is None else pinned(batch)

    # A thread pins for the first GPU unless given another.
    with ThreadPoolExecutor(1, initializer=torch.cuda.set_device, initargs=(device,)) as thread:
        ahead = thread.submit(following)
        while (batch := ahead.result()) is not None:
            ahead = thread.submit(following)
            yield moved(batch, device)
