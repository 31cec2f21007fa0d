"""Cosine attention. Its logits are cosines of queries and keys, times a learned temperature.

The absolute value of a logit is at most the temperature for every head size. So the head size
changes the rank of the logits but not their scale. `models.attention.multi_head` explains the
symbols of the shapes.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.attention.multi_head import MultiHeadAttention


class CosineAttention(MultiHeadAttention):
    """Multi-head attention whose logits are cosines, times a learned temperature for each head.

    The argument `temperature` is the initial temperature of all heads.
    """

    def __init__(
        self,
        embedding_size: int,
        heads: int,
        head_size: int,
        *,
        bias: bool = False,
        dropout: float = 0.0,
        temperature: int = 10,
    ) -> None:
        super().__init__(embedding_size, heads, head_size, bias=bias, dropout=dropout)
        self.log_temperature = nn.Parameter(torch.full((heads,), math.log(temperature)))

    def forward(self, x_BTD: Tensor, mask_B1TT: Tensor | None = None) -> Tensor:
        """Return the output of the layer, which has the shape of x_BTD.

        `mask_B1TT` is True where a query may attend to a key. If it is None, all may.
        """
        qkv_BT3HP = self.qkv(x_BTD).unflatten(-1, (3, self.heads, self.head_size))
        q_BHTP, k_BHTP, v_BHTP = qkv_BT3HP.permute(2, 0, 3, 1, 4).unbind(0)
        context_BHTP = F.scaled_dot_product_attention(
            F.normalize(q_BHTP, dim=-1) * self.log_temperature.exp()[:, None, None],
            F.normalize(k_BHTP, dim=-1),
            v_BHTP,
            attn_mask=mask_B1TT,
            dropout_p=self.dropout if self.training else 0.0,
            scale=1.0,
        )
        output_BTD: Tensor = self.output(context_BHTP.transpose(1, 2).flatten(2))
        return output_BTD
