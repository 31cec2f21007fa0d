"""A Transformer block: attention and feed-forward, each on a residual branch."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn


class Block(nn.Module):
    """One layer; `norm` says where the LayerNorms stand.

    "pre" normalises what enters a branch (tensor2tensor), "post" what a branch and its residual add
    up to (the paper's eq. 8 and 9, BERT). Dropout acts on what each branch adds.
    """

    def __init__(
        self,
        embedding_size: int,
        attention: nn.Module,
        feed_forward: nn.Module,
        *,
        norm: Literal["pre", "post"],
        epsilon: float,
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention, self.feed_forward, self.norm = attention, feed_forward, norm
        self.attention_norm = nn.LayerNorm(embedding_size, eps=epsilon)
        self.feed_forward_norm = nn.LayerNorm(embedding_size, eps=epsilon)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BTD: Tensor, mask_B1TT: Tensor | None = None) -> Tensor:
        if self.norm == "pre":
            x_BTD = x_BTD + self.dropout(self.attention(self.attention_norm(x_BTD), mask_B1TT))
            x_BTD = x_BTD + self.dropout(self.feed_forward(self.feed_forward_norm(x_BTD)))
        else:
            x_BTD = self.attention_norm(x_BTD + self.dropout(self.attention(x_BTD, mask_B1TT)))
            x_BTD = self.feed_forward_norm(x_BTD + self.dropout(self.feed_forward(x_BTD)))
        return x_BTD
