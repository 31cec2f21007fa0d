"""Scaled dot-product attention with the fused kernels of a GPU.

multi_head.py defines the symbols of shapes.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

HALF = (torch.bfloat16, torch.float16)
# The GPU kernel needs head sizes that are multiples of SIZES, and row lengths that are multiples of
# LENGTHS.
SIZES, LENGTHS = 8, 16


def attended(
    q_BHTP: Tensor,
    k_BHTP: Tensor,
    v_BHTP: Tensor,
    mask: Tensor | None,
    *,
    dropout: float,
    scale: float,
) -> Tensor:
    """Compute scaled dot-product attention. Return context_BHTP, the output of each head.

    `F.scaled_dot_product_attention` takes either a mask or `is_causal`. Its GPU kernel takes both
    and then skips all keys above the diagonal, which gives the same bits in two thirds of the time.
    Therefore training on a GPU calls the kernel directly. Evaluation does not, because
    `models.attention_map` can only intercept calls of `F.scaled_dot_product_attention`.

    Args:
        q_BHTP, k_BHTP, v_BHTP: queries, keys and values. The values may have another size P than
            the queries and keys.
        mask: True where a query (axis 2) may attend to a key (axis 3), or a tensor to add to the
            logits.
    """
    qkv = (q_BHTP, k_BHTP, v_BHTP)
    if mask is None or not (torch.is_grad_enabled() and _can_skip(*qkv, mask)):
        return F.scaled_dot_product_attention(
            *qkv, attn_mask=mask, dropout_p=dropout, scale=scale
        )

    seen = torch.zeros((), dtype=q_BHTP.dtype, device=q_BHTP.device)
    bias_B1TT = torch.where(mask, seen, -math.inf)
    bias_BHTT = bias_B1TT.expand(*q_BHTP.shape[:-1], k_BHTP.shape[-2])
    kernel = torch.ops.aten._scaled_dot_product_efficient_attention
    context_BHTP: Tensor = kernel(*qkv, bias_BHTT, True, dropout, True, scale=scale)[0]
    return context_BHTP


def _can_skip(q_BHTP: Tensor, k_BHTP: Tensor, v_BHTP: Tensor, mask: Tensor) -> bool:
    """Return whether the GPU kernel can skip the keys above the diagonal.

    The mask must be causal, and the kernel must accept the types and sizes of the tensors.
    """
    causal = getattr(mask, "causal", False)  # models.mask sets this attribute
    if q_BHTP.device.type != "cuda" or not causal:
        return False
    length = q_BHTP.shape[-2]
    lengths_fit = k_BHTP.shape[-2] == length and length % LENGTHS == 0
    sizes_fit = [
        one.shape[-1] % SIZES == 0 and one.dtype in HALF
        for one in (q_BHTP, k_BHTP, v_BHTP)
    ]
    return lengths_fit and all(sizes_fit)
