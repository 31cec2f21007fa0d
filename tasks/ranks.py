"""Sharding and communication between the processes (ranks) of one run."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from sweeper.store.errors import invalid_value

Value = TypeVar("Value")


def rank() -> int:
    """Return the rank of this process. It is 0 if the run has one process."""
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

    First come the first values of all ranks, then their second values, and so on.
    """
    if world() == 1:
        return [*values]
    every: list[Sequence[Value]] = [()] * world()
    dist.all_gather_object(every, values)
    return [one for turn in zip_longest(*every) for one in turn if one is not None]


def share(rows: int) -> tuple[int, int]:
    """Return the start and the end of this rank's share of a batch with `rows` rows.

    Raises:
        UserError: there are fewer rows than ranks.
    """
    if rows < world():
        expected = f"at most {rows} devices in total, because a batch has {rows} rows"
        raise invalid_value(
            "trainer.devices", world(), expected, "raise task.batch_tokens"
        )
    return rows * rank() // world(), rows * (rank() + 1) // world()


def split(batch: dict[str, Tensor], parts: int) -> list[dict[str, Tensor]]:
    """Split this rank's rows into `parts` batches, or fewer if a rank has fewer rows.

    All ranks make equally many batches.
    """
    if parts == 1:
        return [batch]
    rows = torch.tensor(len(next(iter(batch.values()))))
    if world() > 1:
        dist.all_reduce(rows, dist.ReduceOp.MIN)
    parts = min(parts, int(rows))
    cut = {name: tensor.tensor_split(parts) for name, tensor in batch.items()}
    return [{name: cut[name][place] for name in batch} for place in range(parts)]


def mean(value: Tensor) -> Tensor:
    """Return the mean of `value` over all ranks."""
    if world() == 1:
        return value
    every = value.detach().clone()
    dist.all_reduce(every)
    return every / world()
