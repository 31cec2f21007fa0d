"""Projections into heads and back, of sizes for which a GPU has fused attention.

The kernels that keep no logits of their own take vectors of a multiple of 8 numbers; for any other
size there is only the plain one, which keeps all of them. So on a GPU a head's weights get zeros
for the numbers it lacks. They change no product, and parameters, gradients and checkpoints know
nothing of them.

Symbols as in `multi_head`; on a GPU, P may be more than head_size here.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

MULTIPLES = {"cuda": 8}  # by type of device; of numbers in bfloat16, single precision asks for 4


def to_heads(projection: nn.Linear, x_BTD: Tensor, *shape: int) -> Tensor:
    """Return the projection of x_BTD as x_BT..P, `shape` being its axes .. and head_size."""
    weight_WD: Tensor = projection.weight
    bias_W: Tensor | None = projection.bias
    zeros = -shape[-1] % MULTIPLES.get(x_BTD.device.type, 1)
    if zeros:
        weight_WD = F.pad(weight_WD.view(*shape, -1), (0, 0, 0, zeros)).flatten(0, -2)
        bias_W = bias_W if bias_W is None else F.pad(bias_W.view(shape), (0, zeros)).flatten()
    x_BTW = F.linear(x_BTD, weight_WD, bias_W)
    return x_BTW.view(*x_BTW.shape[:-1], *shape[:-1], shape[-1] + zeros)


def from_heads(projection: nn.Linear, context_BHTP: Tensor) -> Tensor:
    """Return x_BTD, the projection of all heads side by side."""
    context_BTW = context_BHTP.transpose(1, 2).flatten(2)
    weight_DW: Tensor = projection.weight
    heads = context_BHTP.shape[1]
    if context_BTW.shape[-1] != projection.in_features:
        weight_DHP = weight_DW.view(len(weight_DW), heads, -1)
        weight_DW = widened(weight_DHP, context_BHTP.shape[-1]).flatten(1)
    return F.linear(context_BTW, weight_DW, projection.bias)


def widened(x: Tensor, size: int) -> Tensor:
    """Return x with zeros at the end of its last axis, up to that size."""
    return x if x.shape[-1] == size else F.pad(x, (0, size - x.shape[-1]))
