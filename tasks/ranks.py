"""What one of several processes (ranks) that train a run does with its part of a batch.

A process that trains alone is rank 0 of 1, and nothing here changes a bit of what it computes.
"""

from __future__ import annotations

from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from sweeper.store.errors import invalid_value

Value = TypeVar("Value")


def rank() -> int:
    """The number of this process among those that train the run; 0 where it is the only one."""
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    """How many processes train the run."""
    return dist.get_world_size() if dist.is_initialized() else 1


def broadcast(value: Value) -> Value:
    """What rank 0 gave for `value`, on every rank."""
    if world() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
    return box[0]


def shard(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The rows of a batch that are this rank's.

    Raises:
        UserError: the batch has fewer rows than there are ranks.
    """
    if world() == 1:
        return batch
    rows = len(next(iter(batch.values())))
    if rows < world():
        expected = f"at most {rows} devices in all, as many as a batch has rows"
        raise invalid_value("trainer.devices", world(), expected, "raise task.batch_tokens")
    first, last = (rows * place // world() for place in (rank(), rank() + 1))
    return {name: tensor[first:last] for name, tensor in batch.items()}


def split(batch: dict[str, Tensor], parts: int) -> list[dict[str, Tensor]]:
    """So many parts of this rank's rows, equal within one row; fewer, as many on every rank, where
    one has fewer rows."""
    if parts == 1:
        return [batch]
    rows = torch.tensor(len(next(iter(batch.values()))))
    if world() > 1:
        dist.all_reduce(rows, dist.ReduceOp.MIN)
    parts = min(parts, int(rows))
    pieces = {name: tensor.tensor_split(parts) for name, tensor in batch.items()}
    return [{name: pieces[name][place] for name in batch} for place in range(parts)]


def mean(value: Tensor) -> Tensor:
    """The mean of what all ranks have."""
    if world() == 1:
        return value
    every = value.detach().clone()
    dist.all_reduce(every)
    return every / world()
