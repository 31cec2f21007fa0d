"""Projections into heads and back, padded to head sizes that a GPU's fused attention takes.

A GPU's fused kernels do not store the logits, but need head sizes that are multiples of 8. For
other sizes PyTorch uses a kernel that stores all logits. On a GPU, the weights of each head are
therefore padded with zeros. The zeros change no product. Parameters, gradients and checkpoints do
not contain them.

Symbols as in `multi_head`. On a GPU, P here may be larger than head_size.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Head sizes are padded to a multiple of this, by type of device. bfloat16 needs 8, and single
# precision would need 4.
MULTIPLES = {"cuda": 8}


def to_heads(projection: nn.Linear, x_BTD: Tensor, *shape: int) -> Tensor:
    """Return the projection of x_BTD as x_BT..P. `shape` has the axes `..` and the head size."""
    weight_WD: Tensor = projection.weight
    bias_W: Tensor | None = projection.bias
    zeros = -shape[-1] % MULTIPLES.get(x_BTD.device.type, 1)
    if zeros:
        weight_WD = F.pad(weight_WD.view(*shape, -1), (0, 0, 0, zeros)).flatten(0, -2)
        if bias_W is not None:
            bias_W = F.pad(bias_W.view(shape), (0, zeros)).flatten()
    x_BTW = F.linear(x_BTD, weight_WD, bias_W)
    return x_BTW.view(*x_BTW.shape[:-1], *shape[:-1], shape[-1] + zeros)


def from_heads(projection: nn.Linear, context_BHTP: Tensor) -> Tensor:
    """Return the projection of the concatenated heads, x_BTD."""
    context_BTW = context_BHTP.transpose(1, 2).flatten(2)
    weight_DW: Tensor = projection.weight
    heads = context_BHTP.shape[1]
    if context_BTW.shape[-1] != projection.in_features:
        weight_DHP = weight_DW.view(len(weight_DW), heads, -1)
        weight_DW = widened(weight_DHP, context_BHTP.shape[-1]).flatten(1)
    return F.linear(context_BTW, weight_DW, projection.bias)


class HeadNorm(nn.Module):
    """Normalisation of queries and keys by their root mean square, with learned scales.

    As in Qwen3, all query heads share one scale of size P, and all key heads share another.
    """

    def __init__(self, heads: int, key_value_heads: int, head_size: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.ones(head_size))
        self.key = nn.Parameter(torch.ones(head_size))
        self.heads, self.key_value_heads = heads, key_value_heads

    def forward(self, qk_BTHP: Tensor) -> Tensor:
        """Return normalised queries and keys. Axis H has the query heads, then the key heads."""
        head_size = len(self.query)
        rows = (
            self.query.expand(self.heads, -1),
            self.key.expand(self.key_value_heads, -1),
        )
        # Leave the padding for a GPU out of the mean.
        normed_BTHP = F.rms_norm(qk_BTHP[..., :head_size], (head_size,), eps=1.0e-6)
        return widened(
            (normed_BTHP * torch.cat(rows)).to(qk_BTHP.dtype), qk_BTHP.shape[-1]
        )


def filled(x: Tensor) -> Tensor:
    """Pad the last axis of x with zeros to the next size that a GPU's fused attention takes."""
    return widened(x, x.shape[-1] + -x.shape[-1] % MULTIPLES.get(x.device.type, 1))


def widened(x: Tensor, size: int) -> Tensor:
    """Pad the last axis of x with zeros to `size`."""
    return x if x.shape[-1] == size else F.pad(x, (0, size - x.shape[-1]))
