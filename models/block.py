"""A Transformer block: attention and a feed-forward layer, each on a residual branch."""

from collections.abc import Callable
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from models.initialisation import glorot_uniform_

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """A feed-forward layer D -> F -> D, with dropout on its activations.

    F is feedforward_size. If `gated` is True, there are two projections D -> F. The activation of
    the first multiplies the second (Shazeer 2020). With silu, this is SwiGLU.
    """

    def __init__(
        self,
        embedding_size: int,
        feedforward_size: int,
        activation: str,
        dropout: float,
        *,
        gated: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        # With a gate, the weight of `expand` has the rows of the gate first.
        sizes = [feedforward_size] * (2 if gated else 1)
        self.gated = gated
        self.expand = nn.Linear(embedding_size, sum(sizes), bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.contract = nn.Linear(feedforward_size, embedding_size, bias=bias)
        glorot_uniform_(self.expand, stacked=sizes)
        glorot_uniform_(self.contract)

    def forward(self, x_BTD: Tensor) -> Tensor:
        hidden_BTF: Tensor = self.expand(x_BTD)
        if self.gated:
            gate_BTF, hidden_BTF = hidden_BTF.chunk(2, dim=-1)
            hidden_BTF = self.activation(gate_BTF) * hidden_BTF
        else:
            hidden_BTF = self.activation(hidden_BTF)
        output_BTD: Tensor = self.contract(self.dropout(hidden_BTF))
        return output_BTD


class Block(nn.Module):
    """One layer of a Transformer. Dropout is applied to the output of each branch.

    Args:
        norm: "pre" normalises the input of each branch, as in tensor2tensor. "post" normalises the
            sum of a branch's input and output, as in BERT and in eq. 8 and 9 of the paper.
        normalised: a function that returns a normalisation layer, given the embedding size.
    """

    def __init__(
        self,
        embedding_size: int,
        attention: nn.Module,
        feed_forward: nn.Module,
        *,
        norm: Literal["pre", "post"],
        normalised: Callable[[int], nn.Module],
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention, self.feed_forward, self.norm = attention, feed_forward, norm
        self.attention_norm = normalised(embedding_size)
        self.feed_forward_norm = normalised(embedding_size)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x_BTD: Tensor, mask_B1TT: Tensor | None = None, **rotation: Any
    ) -> Tensor:
        """Return the output, of shape (B, T, D).

        If the keyword argument `rotation` is given, it is passed to the attention.
        """
        if self.norm == "pre":
            attended_BTD = self.attention(
                self.attention_norm(x_BTD), mask_B1TT, **rotation
            )
            x_BTD = x_BTD + self.dropout(attended_BTD)
            x_BTD = x_BTD + self.dropout(
                self.feed_forward(self.feed_forward_norm(x_BTD))
            )
        else:
            attended_BTD = self.attention(x_BTD, mask_B1TT, **rotation)
            x_BTD = self.attention_norm(x_BTD + self.dropout(attended_BTD))
            x_BTD = self.feed_forward_norm(
                x_BTD + self.dropout(self.feed_forward(x_BTD))
            )
        return x_BTD


def compile_blocks(model: nn.Module) -> None:
    """Compile each block of a model with `torch.compile`, when the block is first called."""
    for part in model.modules():
        if isinstance(part, Block):
            part.compile()
