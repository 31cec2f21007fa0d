"""Latent attention: the keys and values of all heads come from one small vector per position.

It is the multi-head latent attention of DeepSeek-V2 (DeepSeek-AI 2024, eq. 9 to 19). multi_head.py
defines the symbols of shapes. C is latent_size, R rotary_size, U value_size:

    c                 norm(W_C x), the latent, of size C
    r                 W_R x, the rotary key that all heads share, of size R
    q of head i       a part of size P without positions, and a rotary part of size R
    k of head i       (W_K^i c, r)
    v of head i       W_V^i c, of size U
    scale             1/sqrt(P + R)

Decoding caches only c and r. Rotary positions rotate only the rotary parts. If W_K^i c were rotated
too, decoding would have to compute the keys of all earlier positions again at each step. If
`query_latent_size` is given, queries come from a second normalised latent of that size.
"""

import math

import torch
from torch import Tensor, nn

from models.attention._fused import attended
from models.attention._heads import filled, from_heads
from models.initialisation import glorot_uniform_
from models.normalisation import RMSNorm
from models.rotation import Rotation


class LatentAttention(nn.Module):
    """Attention whose keys and values are functions of a latent and of one shared rotary key.

    Each matrix, including W_C and W_R, is drawn from Glorot's uniform distribution with the
    variance for its own shape. The norm removes the scale of the latent, so only W_K sets the
    variance of the keys. At the start of training, the keys have the variance 2 C / (C + H P). In
    `multi_head` they have 2 D / (D + H P), for inputs of variance 1. PyTorch's default
    initialisation would give 1 / 3 in both cases, but it was worse in a pilot with `grouped_query`.
    """

    # Configs may not mix head sizes in a layer, because each size would get its own latent.
    heads_share = True

    def __init__(  # noqa: PLR0913  (the arguments of every variant, and four options)
        self,
        embedding_size: int,
        heads: int,
        head_size: int,
        *,
        bias: bool = False,
        dropout: float = 0.0,
        latent_size: int = 64,
        query_latent_size: int | None = None,
        rotary_size: int = 16,
        value_size: int | None = None,
    ) -> None:
        super().__init__()
        if rotary_size % 2:
            raise ValueError(
                f"rotary position encoding needs an even rotary_size, not {rotary_size}"
            )
        value_size = value_size or head_size
        self.heads, self.head_size, self.value_size = heads, head_size, value_size
        self.latent_size, self.rotary_size = latent_size, rotary_size
        self.dropout = dropout

        self.query_latent: nn.Module = nn.Identity()
        query_inputs = embedding_size
        if query_latent_size is not None:
            down = nn.Linear(embedding_size, query_latent_size, bias=bias)
            glorot_uniform_(down)
            self.query_latent = nn.Sequential(down, RMSNorm(query_latent_size))
            query_inputs = query_latent_size
        self.query = nn.Linear(
            query_inputs, heads * (head_size + rotary_size), bias=bias
        )
        self.shared = nn.Linear(embedding_size, latent_size + rotary_size, bias=bias)
        self.latent_norm = RMSNorm(latent_size)
        # Omit a bias of the keys. It would add the same number to all logits of a query, which does
        # not change the softmax.
        self.key = nn.Linear(latent_size, heads * head_size, bias=False)
        self.value = nn.Linear(latent_size, heads * value_size, bias=bias)
        self.output = nn.Linear(heads * value_size, embedding_size, bias=bias)

        glorot_uniform_(self.shared, stacked=[latent_size, rotary_size])
        for projection in (self.query, self.key, self.value, self.output):
            glorot_uniform_(projection)

    @property
    def cached_numbers(self) -> int:
        """The number of elements in the KV cache per position, for latent and rotary key."""
        return self.latent_size + self.rotary_size

    def forward(
        self,
        x_BTD: Tensor,
        mask_B1TT: Tensor | None = None,
        rotation: Rotation | None = None,
    ) -> Tensor:
        """Return the output, of shape (B, T, D).

        The mask is True where a query (axis 2) may attend to a key (axis 3).
        """
        latent_BTC, r_BTR = self.shared(x_BTD).split(
            [self.latent_size, self.rotary_size], -1
        )
        latent_BTC = self.latent_norm(latent_BTC)

        q_BTHS = self.query(self.query_latent(x_BTD)).unflatten(-1, (self.heads, -1))
        k_BTHP = self.key(latent_BTC).unflatten(-1, (self.heads, -1))
        v_BTHU = self.value(latent_BTC).unflatten(-1, (self.heads, -1))

        r_BT1R = r_BTR.unsqueeze(2)
        if rotation is not None:
            own_BTHP, turned_BTHR = q_BTHS.split([self.head_size, self.rotary_size], -1)
            q_BTHS = torch.cat((own_BTHP, rotation(turned_BTHR, self.rotary_size)), -1)
            r_BT1R = rotation(r_BT1R, self.rotary_size)
        k_BTHS = torch.cat((k_BTHP, r_BT1R.expand(-1, -1, self.heads, -1)), -1)

        context_BHTU = attended(
            filled(q_BTHS).transpose(1, 2),
            filled(k_BTHS).transpose(1, 2),
            filled(v_BTHU).transpose(1, 2),
            mask_B1TT,
            dropout=self.dropout if self.training else 0.0,
            scale=1 / math.sqrt(self.head_size + self.rotary_size),
        )
        return from_heads(self.output, context_BHTU)
