"""Collaborative attention: heads that share query and key projections (Cordonnier et al. 2020).

multi_head.py defines the symbols of shapes. S is shared_size, which Cordonnier et al. call D~_k.
All heads use the same queries and keys of size S. Head i multiplies their coordinates by its mixing
vector m_i:

    logits of head i = X W_Q diag(m_i) (X W_K)^T / sqrt(P)

So the logits of each head can have rank S. Values and output are those of multi-head attention.
Multi-head attention itself is the case S = heads * head_size, where m_i is one on the coordinates
of head i and zero elsewhere.

The variant does not support rotary positions. A rotation acts on pairs of coordinates, but
diag(m_i) scales each coordinate separately. So with rotary positions, `from_factors` could not
reproduce the logits of a trained multi-head attention.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.attention._fused import attended
from models.attention._heads import from_heads, to_heads, widened
from models.attention.multi_head import MultiHeadAttention
from models.initialisation import glorot_uniform_


class CollaborativeAttention(nn.Module):
    """Attention with shared queries and keys of size `shared_size`, by default heads * head_size.

    If `bias` is True, each head has a content bias, which is a vector of size D. Its dot product
    with the input at a position is added to all logits for the key at this position. In multi-head
    attention, the bias of the queries has the same effect, and the bias of the keys cancels in the
    softmax.
    """

    # Configs may not mix head sizes in a layer, because each size would get its own projections.
    heads_share = True

    def __init__(
        self,
        embedding_size: int,
        heads: int,
        head_size: int,
        *,
        bias: bool = False,
        dropout: float = 0.0,
        shared_size: int | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.head_size, self.dropout = heads, head_size, dropout
        width = heads * head_size
        shared_size = shared_size or width
        self.query = nn.Linear(embedding_size, shared_size, bias=False)
        self.key = nn.Linear(embedding_size, shared_size, bias=False)
        self.mixing = nn.Parameter(torch.empty(heads, shared_size))
        self.content_bias = (
            nn.Parameter(torch.zeros(heads, embedding_size)) if bias else None
        )
        self.value = nn.Linear(embedding_size, width, bias=bias)
        self.output = nn.Linear(width, embedding_size, bias=bias)

        for projection in (self.query, self.key, self.value, self.output):
            glorot_uniform_(projection)
        # A logit is a sum of shared_size terms here, and of head_size terms in multi-head
        # attention. Choose the variance of the mixing vectors so that the logits of this variant
        # and of multi-head attention have the same variance.
        nn.init.normal_(self.mixing, std=math.sqrt(head_size / shared_size))

    @property
    def cached_numbers(self) -> int:
        """The number of elements in the KV cache per position.

        The cache has the shared key, the content bias of each head, and the values.
        """
        biases = 0 if self.content_bias is None else self.heads
        return self.mixing.shape[1] + biases + self.heads * self.head_size

    def forward(self, x_BTD: Tensor, mask_B1TT: Tensor | None = None) -> Tensor:
        """Return the output, of shape (B, T, D).

        The mask is True where a query (axis 2) may attend to a key (axis 3).
        """
        q_BTS = to_heads(self.query, x_BTD, self.mixing.shape[1])
        # Without this cast, the product would have single precision under autocast.
        mixing_HS = widened(self.mixing, q_BTS.shape[-1]).to(q_BTS.dtype)
        q_BHTS = q_BTS.unsqueeze(1) * mixing_HS.unsqueeze(1)
        k_BTS = to_heads(self.key, x_BTD, self.mixing.shape[1])
        v_BHTP = to_heads(self.value, x_BTD, self.heads, self.head_size).transpose(1, 2)

        # Scale by the head size P, not by S. Factors with a smaller S approximate the same logits
        # (see `from_factors`), so they need the same scale. The authors' code divides by
        # sqrt(S / heads), which makes logits too large if S is smaller than heads * head_size.
        scale = 1 / math.sqrt(self.head_size)
        context_BHTP = attended(
            q_BHTS,
            k_BTS.unsqueeze(1).expand_as(q_BHTS),
            v_BHTP,
            self._with_content_bias(x_BTD, mask_B1TT, scale),
            dropout=self.dropout if self.training else 0.0,
            scale=scale,
        )
        return from_heads(self.output, context_BHTP)

    def _with_content_bias(
        self, x_BTD: Tensor, mask_B1TT: Tensor | None, scale: float
    ) -> Tensor | None:
        """Return the tensor to add to the logits: content biases, and -inf where the mask is False.

        If the module has no content biases, return the mask unchanged.
        """
        if self.content_bias is None:
            return mask_B1TT
        bias_BTH = F.linear(x_BTD, self.content_bias) * scale
        bias_BH1T = bias_BTH.transpose(1, 2).unsqueeze(2)
        if mask_B1TT is None:
            return bias_BH1T.expand(-1, -1, x_BTD.shape[1], -1)
        return torch.where(mask_B1TT, bias_BH1T, -math.inf)

    @classmethod
    @torch.no_grad()
    def from_factors(
        cls,
        attention: MultiHeadAttention,
        query_DS: Tensor,
        mixing_HS: Tensor,
        key_DS: Tensor,
    ) -> CollaborativeAttention:
        """Convert multi-head attention to collaborative attention with the given factors.

        For head i, query_DS diag(m_i) key_DS^T replaces the product W_Q^i W_K^iT of `attention`,
        where m_i is row i of mixing_HS. `models.factorise` computes such factors. The content bias
        is computed from the query bias of `attention`. Values and output are copied.
        """
        weight, has_bias = attention.qkv.weight, attention.qkv.bias is not None
        made = cls(
            weight.shape[1],
            attention.heads,
            attention.head_size,
            bias=has_bias,
            dropout=attention.dropout,
            shared_size=query_DS.shape[1],
        ).to(weight)

        made.query.weight.copy_(query_DS.T)
        made.mixing.copy_(mixing_HS)
        made.key.weight.copy_(key_DS.T)
        made.value.weight.copy_(weight.chunk(3)[2])
        made.output.load_state_dict(attention.output.state_dict())

        if made.content_bias is not None:
            bias_q, _, bias_v = attention.qkv.bias.chunk(3)
            w_k_HPD = weight.chunk(3)[1].view(made.heads, made.head_size, -1)
            bias_q_HP = bias_q.view(made.heads, made.head_size)
            made.content_bias.copy_(torch.einsum("hp,hpd->hd", bias_q_HP, w_k_HPD))
            made.value.bias.copy_(bias_v)
        return made.train(attention.training)
