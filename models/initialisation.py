"""Initialisation of weights, as in the code bases behind the paper."""

from collections.abc import Sequence

import torch
from torch import nn


def glorot_uniform_(linear: nn.Linear, *, stacked: Sequence[int] = ()) -> None:
    """Draw a projection Glorot-uniform and set its bias to zero.

    Matrices that share one layer, with `stacked` outputs, are drawn each by its own shape: by the
    fused shape they would come out too small.
    """
    for weight in torch.split(linear.weight, [*stacked] or len(linear.weight)):
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
