"""Input embeddings: the sum of a token's vector, a position vector and, in BERT, a type vector.

Shapes: B batch, T positions, D embedding_size, V vocabulary.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# The wavelengths of the sinusoids range from 2 pi to 2 pi * _LONGEST_TIMESCALE positions.
_LONGEST_TIMESCALE = 1.0e4


class TokenEmbedding(nn.Module):
    """The embedding of a Decoder: token vectors and, by default, sinusoidal positions.

    As in tensor2tensor, the weight is initialised with the standard deviation D^-0.5, so that the
    softmax layer can share it. The token vectors are multiplied by sqrt(D), which gives them unit
    variance.

    Args:
        scaled: whether to multiply the token vectors by sqrt(D).
        sinusoidal: whether to add sinusoidal positions.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        *,
        scaled: bool = True,
        sinusoidal: bool = True,
    ) -> None:
        super().__init__()
        self.scaled, self.sinusoidal = scaled, sinusoidal
        self.weight = nn.Parameter(torch.empty(vocabulary_size, embedding_size))
        nn.init.normal_(self.weight, std=embedding_size**-0.5)

    def forward(self, tokens_BT: Tensor, positions_BT: Tensor) -> Tensor:
        embedding_size = self.weight.shape[1]
        tokens_BTD = F.embedding(tokens_BT, self.weight)
        if self.scaled:
            tokens_BTD = tokens_BTD * math.sqrt(embedding_size)
        if not self.sinusoidal:
            return tokens_BTD
        return tokens_BTD + sinusoids(positions_BT, embedding_size).to(tokens_BTD.dtype)


def sinusoids(positions_BT: Tensor, embedding_size: int) -> Tensor:
    """Return sinusoids (B, T, D): sines, then as many cosines, then a zero if D is odd.

    The result equals what add_timing_signal_1d_given_position of tensor2tensor adds.
    """
    count = embedding_size // 2
    step = math.log(_LONGEST_TIMESCALE) / max(count - 1, 1)
    rates = torch.exp(torch.arange(count, device=positions_BT.device) * -step)
    angles = positions_BT.unsqueeze(-1) * rates
    return F.pad(
        torch.cat((angles.sin(), angles.cos()), dim=-1), (0, embedding_size % 2)
    )


class TypedEmbedding(nn.Module):
    """The embedding of an Encoder: learned token, position and type vectors, as in BERT.

    LayerNorm and dropout are applied to the sum of the vectors. A row may have at most `positions`
    tokens.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        *,
        positions: int,
        epsilon: float,
        dropout: float,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, embedding_size)
        self.positions = nn.Embedding(positions, embedding_size)
        # Type 0 is the first text of a row, type 1 the second.
        self.types = nn.Embedding(2, embedding_size)
        self.norm = nn.LayerNorm(embedding_size, eps=epsilon)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens_BT: Tensor, types_BT: Tensor) -> Tensor:
        positions_TD = self.positions.weight[: tokens_BT.shape[1]]
        x_BTD = self.tokens(tokens_BT) + self.types(types_BT) + positions_TD
        embedded_BTD: Tensor = self.dropout(self.norm(x_BTD))
        return embedded_BTD
