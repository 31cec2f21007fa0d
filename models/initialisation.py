"""Initialisation of weights, as in the code bases behind the paper."""

from __future__ import annotations

from torch import nn


def glorot_uniform_(linear: nn.Linear, *, stacked: int = 1) -> None:
    """Draw a projection Glorot-uniform and set its bias to zero.

    `stacked` equal matrices that share one layer are drawn each by its own shape: by the fused
    shape they would come out too small.
    """
    for weight in linear.weight.chunk(stacked):
        nn.init.xavier_uniform_(weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def truncated_normal_(module: nn.Module) -> None:
    """Draw a Linear or Embedding as BERT does: normal, sd 0.02, redrawn beyond two sd; no bias.

    For `model.apply`; other modules are left as they are.
    """
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
