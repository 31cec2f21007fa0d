"""Batches of named tensors, and moving them to a device."""

from __future__ import annotations

import torch
from torch import Tensor

Batch = dict[str, Tensor]
"""Named tensors of one batch, on the CPU until the loop moves them."""


def moved(batch: Batch, device: torch.device) -> Batch:
    """Return the batch on a device; the copy does not make the host wait."""
    if device.type == "cpu":
        return batch
    pinned = {k: one.pin_memory() if one.device.type == "cpu" else one for k, one in batch.items()}
    return {key: tensor.to(device, non_blocking=True) for key, tensor in pinned.items()}


def repeated(batch: Batch, times: int) -> Batch:
    """Return the batch with its rows repeated `times` times, at least once."""
    return {
        key: tensor.repeat(max(times, 1), *[1] * (tensor.dim() - 1))
        for key, tensor in batch.items()
    }
