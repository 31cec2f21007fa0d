"""BERT models: an Encoder with output layers for pre-training or fine-tuning.

Shapes: B batch, T positions, D embedding_size, V vocabulary, M masked tokens of a row, C classes,
N vectors.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.cross_entropy import IGNORED, linear_cross_entropy
from models.initialisation import truncated_normal_
from models.transformer import Encoder


def _dense(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    truncated_normal_(layer)
    return layer


class Pooler(nn.Module):
    """BERT's pooler: a dense layer and tanh, applied to the first position of a row."""

    def __init__(self, embedding_size: int) -> None:
        super().__init__()
        self.dense = _dense(embedding_size, embedding_size)

    def forward(self, hidden_BTD: Tensor) -> Tensor:
        return torch.tanh(self.dense(hidden_BTD[:, 0]))


class MaskedTokenHead(nn.Module):
    """The layers between the encoder and the softmax over masked tokens: dense, gelu, LayerNorm.

    The module also has the `bias` of the softmax layer. The weight of the softmax layer is that of
    the token embedding.
    """

    def __init__(self, vocabulary_size: int, embedding_size: int) -> None:
        super().__init__()
        self.dense = _dense(embedding_size, embedding_size)
        self.norm = nn.LayerNorm(embedding_size, eps=1.0e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))

    def forward(self, hidden_ND: Tensor) -> Tensor:
        """Return the input of the softmax layer. `hidden_ND` may have further leading axes."""
        transformed_ND: Tensor = self.norm(F.gelu(self.dense(hidden_ND)))
        return transformed_ND


class _EncoderModel(nn.Module):
    """The base class of models that consist of an Encoder and output layers."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.vocabulary_size, self.embedding_size = (
            encoder.embedding.tokens.weight.shape
        )

    def embedding_parameters(self) -> list[nn.Parameter]:
        return self.encoder.embedding_parameters()


class PretrainingModel(_EncoderModel):
    """BERT for pre-training. It predicts masked tokens, and whether a row's second text is random.

    The paper's Tables 1 to 3 count the parameters of this model.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        self.pooler = Pooler(self.embedding_size)
        self.masked_tokens = MaskedTokenHead(self.vocabulary_size, self.embedding_size)
        self.next_sentence = _dense(self.embedding_size, 2)

    def forward(self, tokens_BT: Tensor, types_BT: Tensor, real_BT: Tensor) -> Tensor:
        """Return hidden_BTD, the encoder's output. It is the input of the other methods."""
        hidden_BTD: Tensor = self.encoder(tokens_BT, types_BT, real_BT)
        return hidden_BTD

    def token_logits(self, hidden_BTD: Tensor, places_BM: Tensor) -> Tensor:
        """Return logits_BMV for the tokens at the positions `places_BM`."""
        hidden_BMD = self.masked_tokens(_at(hidden_BTD, places_BM))
        return F.linear(
            hidden_BMD, self.encoder.embedding.tokens.weight, self.masked_tokens.bias
        )

    def token_loss(
        self, hidden_BTD: Tensor, places_BM: Tensor, targets_BM: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the summed cross-entropy of the masked tokens, in nats, and their number.

        If a row has fewer than M masked tokens, its remaining targets must be IGNORED.
        """
        hidden_ND = self.masked_tokens(_at(hidden_BTD, places_BM).flatten(0, 1))
        targets_N = targets_BM.flatten()
        weight_VD = self.encoder.embedding.tokens.weight
        nats = linear_cross_entropy(
            hidden_ND, weight_VD, targets_N, self.masked_tokens.bias
        )
        return nats, (targets_N != IGNORED).sum()

    def next_logits(self, hidden_BTD: Tensor) -> Tensor:
        """Return logits_B2 for the classes 0 (the second text follows) and 1 (it is random)."""
        logits_B2: Tensor = self.next_sentence(self.pooler(hidden_BTD))
        return logits_B2


class Classifier(_EncoderModel):
    """BERT for the classification of rows into C classes."""

    def __init__(self, encoder: Encoder, *, classes: int, dropout: float) -> None:
        super().__init__(encoder)
        self.pooler = Pooler(self.embedding_size)
        self.dropout = nn.Dropout(dropout)
        self.classes = _dense(self.embedding_size, classes)

    def forward(self, tokens_BT: Tensor, types_BT: Tensor, real_BT: Tensor) -> Tensor:
        hidden_BTD = self.encoder(tokens_BT, types_BT, real_BT)
        logits_BC: Tensor = self.classes(self.dropout(self.pooler(hidden_BTD)))
        return logits_BC


class SpanFinder(_EncoderModel):
    """BERT for question answering, which predicts where in a row the answer starts and ends."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        self.ends = _dense(self.embedding_size, 2)

    def forward(
        self, tokens_BT: Tensor, types_BT: Tensor, real_BT: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the logits (B, T) of the answer's first token, and those of its last token."""
        hidden_BTD = self.encoder(tokens_BT, types_BT, real_BT)
        start_BT, end_BT = self.ends(hidden_BTD).unbind(-1)
        return start_BT, end_BT


def _at(hidden_BTD: Tensor, places_BM: Tensor) -> Tensor:
    index_BMD = places_BM.unsqueeze(-1).expand(-1, -1, hidden_BTD.shape[-1])
    return hidden_BTD.gather(1, index_BMD)
