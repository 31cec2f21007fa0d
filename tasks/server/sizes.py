"""How big a config is: its model built on the meta device, where nothing is allocated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from models.head_sizes import total_width
from models.measure import forward_flops, parameter_counts
from tasks.config.architecture import TransformerSection
from tasks.config.sections import RunConfig
from tasks.parse import parse
from tasks.prepare import task_of
from tasks.server import attention_contract


def size(
    config: Mapping[str, Any], counted: Callable[[RunConfig], dict[str, int]] | None = None
) -> dict[str, int]:
    """Return parameter counts, training FLOPs per position, positions trained on, head size, width.

    The head size is left out where heads differ.

    A training step computes the matrix products of a forward pass three times: once forward, once
    for the gradients of what goes in and once for those of the weights. Attention counts in full.

    Args:
        config: of a run.
        counted: what gives the counts of a config; `counts` if it is not given.

    Raises:
        UserError: the config is wrong anywhere, one sentence.
    """
    run = parse(config)
    attention_contract.check(run.model)
    found = dict((counted or counts)(run))
    flops, positions = found.pop("forward_flops"), found.pop("positions")
    return {
        **found,
        "flops_per_token": 3 * flops // positions,
        "tokens": task_of(run).data.tokens_seen(run.trainer.steps),
        **_heads(run),
    }


def _heads(run: RunConfig) -> dict[str, int]:
    """`head_size` where all heads have one, and the `width` of a layer, or the layers' mean."""
    model = run.model
    if (head_size := model.one_head_size) is not None:
        return {"head_size": head_size, "width": model.heads * head_size}
    assert isinstance(model, TransformerSection)
    return {
        "width": total_width(model.resolved_head_size, model.heads, model.layers) // model.layers
    }


def counts(run: RunConfig) -> dict[str, int]:
    """Return the parameter counts, and the FLOPs of a forward pass over so many positions."""
    task = task_of(run)
    with torch.device("meta"):
        model: Any = task.build()
        example = task.example()
    model.eval()
    return {
        **parameter_counts(model),
        "forward_flops": forward_flops(lambda: task.outputs(model, example)),
        "positions": task.positions(example),
    }
