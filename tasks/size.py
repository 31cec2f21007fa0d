"""How big a config is: its model built on the meta device, where nothing is allocated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from models.measure import forward_flops, parameter_counts
from tasks import registry
from tasks.config import parse
from tasks.task import Task


def size(config: Mapping[str, Any]) -> dict[str, int]:
    """Return parameter counts, training FLOPs per position, positions trained on, head size, width.

    A training step computes the matrix products of a forward pass three times: once forward, once
    for the gradients of what goes in and once for those of the weights. Attention counts in full.

    Raises:
        UserError: the config is wrong anywhere, one sentence.
    """
    run = parse(config)
    task: Task = registry.find("task.name", run.task.name, Task)(run)
    with torch.device("meta"):
        model: Any = task.build()
        example = task.example()
    model.eval()
    flops = forward_flops(lambda: task.outputs(model, example))
    head_size = run.model.resolved_head_size
    return {
        **parameter_counts(model),
        "flops_per_token": 3 * flops // task.positions(example),
        "tokens": task.tokens_seen(run.trainer.steps),
        "head_size": head_size,
        "width": run.model.heads * head_size,
    }
