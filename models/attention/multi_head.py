"""Multi-head attention whose number of heads and head size are independent of the embedding size.

Symbols, here and in the paper (Bhojanapalli et al. 2020, eq. 8 and 9), named once for the project:

    B batch   T positions (n)   D embedding_size (d)   H heads (h)   P head_size (d_p)
    W width, heads * head_size: what all heads together project onto

    q, k, v of head i    the paper's V_q^i X, V_k^i X, V_v^i X   (rows here are its columns)
    scale                1/sqrt(d_p), from the head size, never from d/h
    output               the paper's V_o, from W back to D

With head_size = embedding_size / heads this is the paper's standard MultiHead (eq. 8); with a head
size of its own it is FixedMultiHead (eq. 9).

Stop 7 of the road: a task (stop 6) builds it, layer by layer, from the section `model` of its
config. What the heads are worth is seen again in sweeper/results/collect.py (stop 8).
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from models.attention._heads import from_heads, to_heads
from models.initialisation import glorot_uniform_


class MultiHeadAttention(nn.Module):
    """Concatenated heads of scaled dot-product self-attention."""

    def __init__(
        self,
        embedding_size: int,
        heads: int,
        head_size: int,
        *,
        bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads, self.head_size, self.dropout = heads, head_size, dropout
        width = heads * head_size
        self.qkv = nn.Linear(embedding_size, 3 * width, bias=bias)
        self.output = nn.Linear(width, embedding_size, bias=bias)
        glorot_uniform_(self.qkv, stacked=3)
        glorot_uniform_(self.output)

    def forward(self, x_BTD: Tensor, mask_B1TT: Tensor | None = None) -> Tensor:
        """Return x_BTD; in the mask (query, key) is True where a query may attend to a key."""
        qkv_BT3HP = to_heads(self.qkv, x_BTD, 3, self.heads, self.head_size)
        q_BHTP, k_BHTP, v_BHTP = (x_BTHP.transpose(1, 2) for x_BTHP in qkv_BT3HP.unbind(2))
        context_BHTP = F.scaled_dot_product_attention(
            q_BHTP,
            k_BHTP,
            v_BHTP,
            attn_mask=mask_B1TT,
            dropout_p=self.dropout if self.training else 0.0,
            scale=1 / math.sqrt(self.head_size),
        )
        return from_heads(self.output, context_BHTP)
