"""The position-wise feed-forward layer of a block."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from models.initialisation import glorot_uniform_

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """D -> F -> D with biases; dropout acts on the activations in between."""

    def __init__(
        self, embedding_size: int, feedforward_size: int, *, activation: str, dropout: float
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
