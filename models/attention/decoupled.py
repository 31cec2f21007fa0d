"""Multi-head attention with separate sizes for values and for queries and keys.

multi_head.py defines the symbols of shapes. U is value_size. The paper's Theorem 1 is about queries
and keys: their size P limits the rank of a head's logits. In `multi_head`, values have the size P
too, so a larger P also enlarges the values and the output projection. Here, P can change alone.
"""

import math

from torch import Tensor, nn

from models.attention._fused import attended
from models.attention._heads import from_heads, to_heads
from models.initialisation import glorot_uniform_
from models.rotation import Rotation


class DecoupledAttention(nn.Module):
    """Attention with queries and keys of size `head_size` and values of size `value_size`.

    By default, `value_size` equals `head_size`.
    """

    def __init__(
        self,
        embedding_size: int,
        heads: int,
        head_size: int,
        *,
        bias: bool = False,
        dropout: float = 0.0,
        value_size: int | None = None,
    ) -> None:
        super().__init__()
        value_size = value_size or head_size
        self.heads, self.head_size, self.value_size = heads, head_size, value_size
        self.dropout = dropout
        self.rotary_size = head_size  # rotary positions rotate whole heads

        self.query_key = nn.Linear(embedding_size, 2 * heads * head_size, bias=bias)
        self.value = nn.Linear(embedding_size, heads * value_size, bias=bias)
        self.output = nn.Linear(heads * value_size, embedding_size, bias=bias)
        glorot_uniform_(self.query_key, stacked=2 * [heads * head_size])
        glorot_uniform_(self.value)
        glorot_uniform_(self.output)

    @property
    def cached_numbers(self) -> int:
        """The number of elements in the KV cache per position, for keys and values."""
        return self.heads * (self.head_size + self.value_size)

    def forward(
        self,
        x_BTD: Tensor,
        mask_B1TT: Tensor | None = None,
        rotation: Rotation | None = None,
    ) -> Tensor:
        """Return the output, of shape (B, T, D).

        The mask is True where a query (axis 2) may attend to a key (axis 3).
        """
        qk_BTHP = to_heads(self.query_key, x_BTD, 2 * self.heads, self.head_size)
        if rotation is not None:
            qk_BTHP = rotation(qk_BTHP, self.head_size)
        q_BHTP, k_BHTP = (x_BTHP.transpose(1, 2) for x_BTHP in qk_BTHP.chunk(2, dim=2))
        v_BHTU = to_heads(self.value, x_BTD, self.heads, self.value_size).transpose(
            1, 2
        )

        context_BHTU = attended(
            q_BHTP,
            k_BHTP,
            v_BHTU,
            mask_B1TT,
            dropout=self.dropout if self.training else 0.0,
            scale=1 / math.sqrt(self.head_size),
        )
        return from_heads(self.output, context_BHTU)
