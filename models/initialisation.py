"""The initialisation of weights, as in the paper's code."""

from collections.abc import Sequence

import torch
from torch import nn


def glorot_uniform_(linear: nn.Linear, *, stacked: Sequence[int] = ()) -> None:
    """Draw the weight of a projection from Glorot's uniform distribution and set its bias to zero.

    Args:
        linear: the projection.
        stacked: the output sizes of the matrices, if the weight is a stack of several matrices.
            Each matrix is then drawn with the variance for its own shape.
    """
    for weight in torch.split(linear.weight, [*stacked] or len(linear.weight)):
        nn.init.xavier_uniform_(weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def truncated_normal_(module: nn.Module) -> None:
    """Draw the weight of a Linear or Embedding as BERT does, and set the bias to zero.

    The distribution is normal with standard deviation 0.02, truncated at two standard deviations.
    Any other module stays unchanged, so that `model.apply` can call this function.
    """
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
