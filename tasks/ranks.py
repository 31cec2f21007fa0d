"""Sharding and communication between the processes (ranks) of one run."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from sweeper.store.errors import UserError
from sweeper.store.numbers import plural
from tasks.batch import Batch, rows_of

Value = TypeVar("Value")


def rank() -> int:
    """Return the rank of this process. It is 0 if the run has only one process."""
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    """Return the number of processes of the run."""
    return dist.get_world_size() if dist.is_initialized() else 1


def broadcast(value: Value) -> Value:
    """Return rank 0's `value` on every rank."""
    if world() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
    return box[0]


def gathered(values: Sequence[Value]) -> list[Value]:
    """Return the values of all ranks, on every rank.

    Their order is: the first value of each rank, the second value of each rank, and so on. Ranks
    may have different numbers of values.
    """
    if world() == 1:
        return [*values]
    every: list[Sequence[Value]] = [()] * world()
    dist.all_gather_object(every, values)
    return [one for turn in zip_longest(*every) for one in turn if one is not None]


def share(batch: Batch) -> Batch:
    """Return this rank's rows of a batch.

    Raises:
        UserError: there are fewer rows than ranks.
    """
    if world() == 1:
        return batch
    rows = rows_of(batch)
    if rows < world():
        raise UserError(
            f"The run uses {world()} devices (trainer.devices x trainer.num_nodes), but a batch "
            f"has only {plural(rows, 'row')}; use at most one device for each row, or raise "
            "task.batch_tokens."
        )
    first, last = rows * rank() // world(), rows * (rank() + 1) // world()
    return {name: tensor[first:last] for name, tensor in batch.items()}


def mean(value: Tensor) -> Tensor:
    """Return the mean of `value` over all ranks."""
    if world() == 1:
        return value
    every = value.detach().clone()
    dist.all_reduce(every)
    return every / world()
