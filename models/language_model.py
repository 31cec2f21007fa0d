"""The base class of language models. It computes the loss.

Shapes: B batch, T positions, D embedding_size, V vocabulary.
"""

from abc import ABC, abstractmethod
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from models.cross_entropy import IGNORED, linear_cross_entropy
from models.embedding import TokenEmbedding


class LanguageModel(nn.Module, ABC):
    """A model that predicts the next token at every position."""

    @abstractmethod
    def forward(
        self, tokens_BT: Tensor, segments_BT: Tensor, positions_BT: Tensor
    ) -> Tensor:
        """Return hidden_BTD, the input of the softmax layer.

        The hidden state of a position may depend only on the tokens at this and at earlier
        positions of the same segment.

        Args:
            segments_BT: the segment number of each position. Padding has the number 0.
            positions_BT: the positions, which restart at 0 in each segment.
        """

    @abstractmethod
    def softmax_layer(self) -> tuple[Tensor, Tensor | None]:
        """Return weight_VD and bias_V of the softmax layer. The bias may be None."""

    def logits(self, hidden_BTD: Tensor) -> Tensor:
        """Return logits_BTV of the next token at every position."""
        return F.linear(hidden_BTD, *self.softmax_layer())

    def own_logits(self, *inputs: Tensor) -> Tensor:
        """Return logits_BTV of the model's own output layer, given the arguments of `forward`.

        Override this method in a wrapper of another library's model, to return the logits of that
        model. The loss does not use them, but tasks/lm1b/contract.py checks that they equal the
        result of `logits`.
        """
        return self.logits(self(*inputs))

    def loss(self, hidden_BTD: Tensor, targets_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Return the summed cross-entropy, in nats, and the number of targets.

        Targets that are IGNORED do not count.
        """
        weight_VD, bias_V = self.softmax_layer()
        hidden_ND, targets_N = hidden_BTD.flatten(0, 1), targets_BT.flatten()
        nats = linear_cross_entropy(hidden_ND, weight_VD, targets_N, bias_V)
        return nats, (targets_BT != IGNORED).sum()

    def embedding_parameters(self) -> list[Any]:
        """Return the weights of all embeddings and of the softmax layer.

        The list has a shared weight once.
        """
        kinds = nn.Embedding | TokenEmbedding
        tables = [part.weight for part in self.modules() if isinstance(part, kinds)]
        return [*dict.fromkeys([*tables, self.softmax_layer()[0]])]
