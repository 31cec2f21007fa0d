"""Initialisation of weights, as in the code that the paper used."""

from collections.abc import Sequence

import torch
from torch import nn


def glorot_uniform_(linear: nn.Linear, *, stacked: Sequence[int] = ()) -> None:
    """Draw the weight of a projection Glorot-uniform and set its bias to zero.

    Args:
        stacked: the output sizes of several matrices that are stacked in one layer. Each is drawn
            by its own shape, because the shape of the stack would make them too small.
    """
    for weight in torch.split(linear.weight, [*stacked] or len(linear.weight)):
        nn.init.xavier_uniform_(weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def truncated_normal_(module: nn.Module) -> None:
    """Draw the weight of a Linear or Embedding as BERT does, and set the bias to zero.

    The distribution is normal with standard deviation 0.02, truncated at two standard deviations.
    Other modules are left unchanged, so that `model.apply` can call this.
    """
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
