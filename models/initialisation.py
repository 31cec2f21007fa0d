"""The initialisation of weights, as in the paper's code."""

from collections.abc import Sequence

import torch
from torch import nn


def glorot_uniform_(linear: nn.Linear, *, stacked: Sequence[int] = ()) -> None:
    """Draw the weight of a projection from Glorot's uniform distribution and set its bias to zero.

    Args:
        linear: the projection.
        stacked: if the weight stacks several matrices, the output size of each. Each matrix is
            drawn with the variance for its own shape.
    """
    for weight in torch.split(linear.weight, [*stacked] or len(linear.weight)):
        nn.init.xavier_uniform_(weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def truncated_normal_(module: nn.Module) -> None:
    """Draw the weight of a Linear or Embedding as BERT does, and set the bias of a Linear to zero.

    The distribution is normal with standard deviation 0.02, truncated at two standard deviations.
    Other modules stay unchanged, so `model.apply(truncated_normal_)` initialises a whole model.
    """
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
