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

_MULTIPLES = {"cuda": 8}  # by type of device; of numbers in bfloat16, single precision asks for 4


def to_heads(projection: nn.Linear, x_BTD: Tensor, *shape: int) -> Tensor:
    """Return the projection of x_BTD as x_BT..P, `shape` being its axes .. and head_size."""
    zeros = -shape[-1] % _MULTIPLES.get(x_BTD.device.type, 1)
    if not zeros:
        return projection(x_BTD).unflatten(-1, shape)
    weight_WD = F.pad(projection.weight.unflatten(0, shape), (0, 0, 0, zeros)).flatten(0, -2)
    bias_W = projection.bias
    if bias_W is not None:
        bias_W = F.pad(bias_W.unflatten(0, shape), (0, zeros)).flatten()
    return F.linear(x_BTD, weight_WD, bias_W).unflatten(-1, (*shape[:-1], shape[-1] + zeros))


def from_heads(projection: nn.Linear, context_BHTP: Tensor) -> Tensor:
    """Return x_BTD, the projection of all heads side by side."""
    context_BTW = context_BHTP.transpose(1, 2).flatten(2)
    weight_DW = projection.weight
    if context_BTW.shape[-1] != projection.in_features:
        heads, padded = context_BHTP.shape[1::2]
        weight_DW = widened(weight_DW.unflatten(1, (heads, -1)), padded).flatten(1)
    return F.linear(context_BTW, weight_DW, projection.bias)


def widened(x: Tensor, size: int) -> Tensor:
    """Return x with zeros at the end of its last axis, up to that size."""
    return x if x.shape[-1] == size else F.pad(x, (0, size - x.shape[-1]))
