"""Batches of named tensors, and moving them to a device."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

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


class Prefetched:
    """Batches on a device, by step; on a GPU the next is built and pinned while a step runs."""

    def __init__(self, build: Callable[[int], Batch], device: torch.device, last: int) -> None:
        self._build, self._device, self._last = build, device, last
        self._ahead: dict[int, Future[Batch]] = {}
        self._thread: ThreadPoolExecutor | None = None
        if device.type == "cuda":  # a thread pins for the first GPU unless given another
            set_device = torch.cuda.set_device
            self._thread = ThreadPoolExecutor(1, initializer=set_device, initargs=(device,))

    def at(self, step: int) -> Batch:
        """Return the batch of a step; begin with that of the next one."""
        if self._thread is None:
            return moved(self._build(step), self._device)
        ahead = self._ahead.pop(step, None)
        batch = ahead.result() if ahead else pinned(self._build(step))
        if step < self._last:
            self._ahead[step + 1] = self._thread.submit(lambda: pinned(self._build(step + 1)))
        return moved(batch, self._device)
