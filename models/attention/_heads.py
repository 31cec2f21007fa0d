"""Linear projections to heads and from heads, which pad heads for the fused kernels of a GPU.

These kernels compute attention without storing the logits, but need head sizes that are multiples
of 8. For other sizes PyTorch uses a kernel that stores all logits. Therefore the functions of this
module pad the weights of each head with zeros on a GPU. The zeros do not change the output of
attention. Parameters, gradients and checkpoints do not contain them.

multi_head.py defines the symbols of shapes. In this file, P includes the padding.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# For each type of device, head sizes are padded to a multiple of this number. bfloat16 needs 8.
# Single precision would only need 4.
MULTIPLES = {"cuda": 8}


def to_heads(projection: nn.Linear, x_BTD: Tensor, *shape: int) -> Tensor:
    """Project x_BTD, and split the last axis of the result into the axes `shape`.

    The last number of `shape` is the head size. On a GPU, zeros pad the last axis to a multiple of
    8.
    """
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
    """Concatenate the heads and project them to the embedding size. Return x_BTD."""
    context_BTW = context_BHTP.transpose(1, 2).flatten(2)
    weight_DW: Tensor = projection.weight
    heads = context_BHTP.shape[1]
    if context_BTW.shape[-1] != projection.in_features:
        weight_DHP = weight_DW.view(len(weight_DW), heads, -1)
        weight_DW = widened(weight_DHP, context_BHTP.shape[-1]).flatten(1)
    return F.linear(context_BTW, weight_DW, projection.bias)


class HeadNorm(nn.Module):
    """Normalisation of queries and keys by their root mean square, with learned scales.

    As in Qwen3, all query heads share one vector of scales, and all key heads share another.
    """

    def __init__(self, heads: int, key_value_heads: int, head_size: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.ones(head_size))
        self.key = nn.Parameter(torch.ones(head_size))
        self.heads, self.key_value_heads = heads, key_value_heads

    def forward(self, qk_BTHP: Tensor) -> Tensor:
        """Normalise queries and keys. The axis H has first all query heads, then all key heads."""
        head_size = len(self.query)
        rows = (
            self.query.expand(self.heads, -1),
            self.key.expand(self.key_value_heads, -1),
        )
        # On a GPU, `to_heads` pads each head with zeros. Leave these out of the mean square.
        normed_BTHP = F.rms_norm(qk_BTHP[..., :head_size], (head_size,), eps=1.0e-6)
        return widened(
            (normed_BTHP * torch.cat(rows)).to(qk_BTHP.dtype), qk_BTHP.shape[-1]
        )


def filled(x: Tensor) -> Tensor:
    """Pad the last axis of x with zeros to a size that fused attention on its device accepts."""
    return widened(x, x.shape[-1] + -x.shape[-1] % MULTIPLES.get(x.device.type, 1))


def widened(x: Tensor, size: int) -> Tensor:
    """Pad the last axis of x with zeros to `size`."""
    return x if x.shape[-1] == size else F.pad(x, (0, size - x.shape[-1]))
