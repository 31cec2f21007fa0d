"""Grouped-query attention: heads that share keys and values in groups (Ainslie et al. 2023).

multi_head.py defines the symbols of shapes. Decoding caches 2 K P numbers per position instead of
2 H P. K = 1 is multi-query attention (Shazeer 2019). K = H is `multi_head`.
"""

from models.attention.multi_head import MultiHeadAttention


class GroupedQueryAttention(MultiHeadAttention):
    """Multi-head attention where each group of H / K query heads shares one key and value head.

    The query, key and value matrices are each drawn from Glorot's uniform distribution, with the
    variance for the shape of that matrix. So the key matrix has the variance 2 / (D + K P), which
    is larger for a smaller K. The variance matters. In a pilot with two seeds, 8 heads that shared
    2 key heads were 1.4 % worse than 2 heads with their own keys. With PyTorch's default variance,
    1 / (3 D), the 8 heads were 1.9 % worse. With K = H, the initial weights are bit for bit those
    of `multi_head`.
    """

    # A layer may not have heads of several sizes, since each size would get its own key heads.
    heads_share = True

    def __init__(
        self,
        embedding_size: int,
        heads: int,
        head_size: int,
        *,
        bias: bool = False,
        dropout: float = 0.0,
        key_value_heads: int = 1,
        qk_norm: bool = False,
    ) -> None:
        if heads % key_value_heads:
            raise ValueError(
                f"heads={heads} is not a multiple of key_value_heads={key_value_heads}; change one"
            )
        sizes = (embedding_size, heads, head_size, key_value_heads)
        super().__init__(*sizes, bias=bias, dropout=dropout, qk_norm=qk_norm)
