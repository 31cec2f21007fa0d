"""Multi-head attention whose number of heads and head size are independent of the embedding size.

The whole project uses these symbols for shapes. The symbols in parentheses are those of the paper
(Bhojanapalli et al. 2020, eq. 8 and 9):

    B batch   T positions (n)   D embedding_size (d)   H heads (h)   P head_size (d_p)
    W width = heads * head_size, the size of all heads together
    K key_value_heads, which equals H unless heads share keys and values (grouped_query.py)

    q, k, v of head i    the paper's V_q^i X, V_k^i X, V_v^i X, transposed
    scale                1/sqrt(d_p), also if d_p differs from d/h
    output               the paper's V_o, which maps W back to D

With head_size = embedding_size / heads this is the paper's standard MultiHead (eq. 8). With any
other head size it is FixedMultiHead (eq. 9).

A model has one attention module for each layer. This file is stop 7 of the road through the code in
CONTRIBUTING.md. Read sweeper/results/collect.py next.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from models.attention._fused import attended
from models.attention._heads import HeadNorm, from_heads, to_heads
from models.initialisation import glorot_uniform_
from models.rotation import Rotation


class MultiHeadAttention(nn.Module):
    """Concatenated heads of scaled dot-product self-attention.

    Args:
        qk_norm: whether to normalise the queries and keys of each head by their root mean square,
            with learned scales (Henry et al. 2020, as in Qwen3). Rotary positions are applied
            afterwards.
        glorot: which matrix shape sets the variance of Glorot's initialisation for queries and
            keys. With "matrix", it is the shape of all heads together (D x H P), as in the paper's
            code. The variance of the initial logits is then proportional to 1 / (D + H P)^2, so it
            falls as heads are added. For D = 64 and P = 32, it is 20 times smaller with 16 heads
            than with 2. With "head", it is the shape of a single head (D x P), so the number of
            heads does not affect the variance.
    """

    def __init__(
        self,
        embedding_size: int,
        heads: int,
        head_size: int,
        key_value_heads: int | None = None,
        *,
        bias: bool = False,
        dropout: float = 0.0,
        qk_norm: bool = False,
        glorot: Literal["matrix", "head"] = "matrix",
    ) -> None:
        super().__init__()
        self.heads, self.head_size, self.dropout = heads, head_size, dropout
        self.glorot = glorot
        self.rotary_size = head_size  # rotary positions rotate whole heads
        self.key_value_heads = key_value_heads or heads
        width, shared_width = heads * head_size, self.key_value_heads * head_size
        self.qkv = nn.Linear(embedding_size, width + 2 * shared_width, bias=bias)
        self.output = nn.Linear(width, embedding_size, bias=bias)

        self.norm = (
            HeadNorm(heads, self.key_value_heads, head_size) if qk_norm else None
        )

        queries_and_keys = [width, shared_width]
        if glorot == "head":
            queries_and_keys = [head_size] * (heads + self.key_value_heads)
        glorot_uniform_(self.qkv, stacked=[*queries_and_keys, shared_width])
        glorot_uniform_(self.output)

    @property
    def cached_numbers(self) -> int:
        """The number of elements in the KV cache per position, for keys and values."""
        return 2 * self.key_value_heads * self.head_size

    def forward(
        self,
        x_BTD: Tensor,
        mask_B1TT: Tensor | None = None,
        rotation: Rotation | None = None,
    ) -> Tensor:
        """Return the output, of shape (B, T, D).

        The mask is True where a query (axis 2) may attend to a key (axis 3).
        """
        heads, shared = self.heads, self.key_value_heads
        qkv_BTHP = to_heads(self.qkv, x_BTD, heads + 2 * shared, self.head_size)
        qk_BTHP, v_BTKP = torch.split(qkv_BTHP, [heads + shared, shared], dim=2)
        if self.norm is not None:
            qk_BTHP = self.norm(qk_BTHP)
        if rotation is not None:
            qk_BTHP = rotation(qk_BTHP, self.head_size)
        q_BTHP, k_BTKP = torch.split(qk_BTHP, [heads, shared], dim=2)

        # No fused kernel of a GPU accepts both a mask and fewer key heads than query heads.
        if shared < heads:
            k_BTKP = k_BTKP.repeat_interleave(heads // shared, dim=2)
            v_BTKP = v_BTKP.repeat_interleave(heads // shared, dim=2)

        context_BHTP = attended(
            q_BTHP.transpose(1, 2),
            k_BTKP.transpose(1, 2),
            v_BTKP.transpose(1, 2),
            mask_B1TT,
            dropout=self.dropout if self.training else 0.0,
            scale=1 / math.sqrt(self.head_size),
        )
        return from_heads(self.output, context_BHTP)
