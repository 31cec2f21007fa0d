"""A Transformer block: attention and a feed-forward layer, each on a residual branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from models.initialisation import glorot_uniform_

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """D -> F -> D with biases; dropout acts on the activations in between."""

    def __init__(
        self, embedding_size: int, feedforward_size: int, activation: str, dropout: float
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation {activation!r} is none of: {', '.join(ACTIVATIONS)}")
        self.activation = ACTIVATIONS[activation]
        self.expand = nn.Linear(embedding_size, feedforward_size)
        self.dropout = nn.Dropout(dropout)
        self.contract = nn.Linear(feedforward_size, embedding_size)
        glorot_uniform_(self.expand)
        glorot_uniform_(self.contract)

    def forward(self, x_BTD: Tensor) -> Tensor:
        hidden_BTF = self.dropout(self.activation(self.expand(x_BTD)))
        output_BTD: Tensor = self.contract(hidden_BTF)
        return output_BTD


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
