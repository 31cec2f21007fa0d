"""Batches of named tensors, and their transfer to a device."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Types of the numpy arrays from which batches are made.
Integers = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]
Booleans = NDArray[np.bool_]

Batch = dict[str, Tensor]
"""The named tensors of one batch. They are on the CPU until the loop moves them."""


def of_arrays(arrays: Mapping[str, np.ndarray]) -> Batch:
    """Convert numpy arrays to a batch of tensors, which share the memory of the arrays."""
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def rows_of(batch: Batch) -> int:
    """Return the number of rows of a batch."""
    return len(next(iter(batch.values())))


def split(batch: Batch, parts: int) -> list[Batch]:
    """Split the rows of a batch into `parts` batches, or into single rows if it has fewer rows."""
    if parts == 1:
        return [batch]
    parts = min(parts, rows_of(batch))
    cut = [tensor.tensor_split(parts) for tensor in batch.values()]
    return [dict(zip(batch, part, strict=True)) for part in zip(*cut, strict=True)]


def moved(batch: Batch, device: torch.device) -> Batch:
    """Return the batch on `device`. Copies to a GPU are asynchronous."""
    if device.type == "cpu":
        return batch
    return {
        key: tensor.to(device, non_blocking=True)
        for key, tensor in pinned(batch).items()
    }


def pinned(batch: Batch) -> Batch:
    """Return the batch in pinned memory, from which a GPU can copy asynchronously."""
    return {
        key: tensor
        if tensor.device.type != "cpu" or tensor.is_pinned()
        else tensor.pin_memory()
        for key, tensor in batch.items()
    }


def prefetched(batches: Iterable[Batch], device: torch.device) -> Iterator[Batch]:
    """Yield the batches on `device`. For a GPU, a thread makes and pins each batch in advance."""
    if device.type != "cuda":
        yield from batches
        return
    source = iter(batches)

    def next_pinned() -> Batch | None:
        batch = next(source, None)
        return None if batch is None else pinned(batch)

    # Without set_device, the thread would pin memory for the first GPU of the machine.
    with ThreadPoolExecutor(
        1, initializer=torch.cuda.set_device, initargs=(device,)
    ) as thread:
        ahead = thread.submit(next_pinned)
        while (batch := ahead.result()) is not None:
            ahead = thread.submit(next_pinned)
            yield moved(batch, device)
