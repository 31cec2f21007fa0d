"""The two Transformers of the paper: the language model for LM1B and BERT's encoder.

The language model also has options of modern decoders: rotary positions, RMSNorm and gated
feed-forward layers.

Shapes: B batch, T positions, D embedding_size, V vocabulary.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from torch import Tensor, nn

from models.attention.multi_head import MultiHeadAttention
from models.block import Block, FeedForward
from models.embedding import TokenEmbedding, TypedEmbedding
from models.head_sizes import HeadSize, attention_layers, cached_numbers
from models.initialisation import truncated_normal_
from models.language_model import LanguageModel
from models.mask import attention_mask
from models.normalisation import RMSNorm
from models.rotation import Rotation

AttentionBuilder = Callable[..., nn.Module]
"""An attention variant, or a `functools.partial` that sets its own options.

For each layer, a model calls `builder(embedding_size, heads, head_size, bias=..., dropout=...)`."""


class Decoder(LanguageModel):
    """A language model of pre-LN blocks with a causal mask. Attention and softmax have no bias.

    With the default options it is tensor2tensor's model, which the paper trained on LM1B. The list
    `blocks` has the layers, so that they can be compiled or sharded one by one.

    Args:
        position_encoding: "sinusoidal" adds sinusoids to the embeddings. "rotary" rotates queries
            and keys (see `models.rotation`), which not every attention variant supports. "none"
            does neither.
        rotary_size: how many dimensions of each head are rotated. None means all.
        normalisation: "layer" for LayerNorm, "rms" for RMSNorm.
        feedforward: "plain", or "gated" for a second projection that multiplies the activations.
        biases: whether feed-forward layers and LayerNorms have biases.
        scale_embeddings: whether to multiply embeddings by the square root of their size.
    """

    def __init__(  # noqa: PLR0913  (one keyword for each option of the model)
        self,
        *,
        vocabulary_size: int,
        layers: int,
        embedding_size: int,
        heads: int,
        head_size: HeadSize,
        feedforward_size: int,
        activation: str = "relu",
        dropout: float = 0.0,
        tie_embeddings: bool = True,
        attention: AttentionBuilder = MultiHeadAttention,
        position_encoding: Literal["sinusoidal", "rotary", "none"] = "sinusoidal",
        rotary_base: float = 10_000.0,
        rotary_size: int | None = None,
        normalisation: Literal["layer", "rms"] = "layer",
        feedforward: Literal["plain", "gated"] = "plain",
        biases: bool = True,
        scale_embeddings: bool = True,
    ) -> None:
        super().__init__()
        epsilon = 1.0e-6  # as in tensor2tensor and many modern decoders
        normalised: Callable[[int], nn.Module] = (
            partial(RMSNorm, eps=epsilon)
            if normalisation == "rms"
            else partial(nn.LayerNorm, eps=epsilon, bias=biases)
        )

        self.embedding = TokenEmbedding(
            vocabulary_size,
            embedding_size,
            scaled=scale_embeddings,
            sinusoidal=position_encoding == "sinusoidal",
        )
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(
                embedding_size,
                layer,
                FeedForward(
                    embedding_size,
                    feedforward_size,
                    activation,
                    dropout,
                    gated=feedforward == "gated",
                    bias=biases,
                ),
                norm="pre",
                normalised=normalised,
                dropout=dropout,
            )
            for layer in attention_layers(
                attention,
                layers,
                embedding_size,
                heads,
                head_size,
                bias=False,
                dropout=dropout,
            )
        )
        self.cached_numbers = cached_numbers(block.attention for block in self.blocks)
        self.final_norm = normalised(embedding_size)

        self.rotary_base, self.turned = rotary_base, dict[int, int]()
        if position_encoding == "rotary":
            every: list[Any] = [*self.blocks.modules()]
            sizes = {
                layer.rotary_size for layer in every if hasattr(layer, "rotary_size")
            }
            self.turned = {size: rotary_size or size for size in sorted(sizes)}

        self.softmax = (
            None if tie_embeddings else TokenEmbedding(vocabulary_size, embedding_size)
        )

    def forward(
        self, tokens_BT: Tensor, segments_BT: Tensor, positions_BT: Tensor
    ) -> Tensor:
        """Return hidden_BTD, the hidden states after the final norm."""
        mask_B1TT = attention_mask(segments_BT, causal=True)
        x_BTD = self.dropout(self.embedding(tokens_BT, positions_BT))
        rotation: dict[str, Any] = {}
        if self.turned:
            rotation = {
                "rotation": Rotation(positions_BT, self.turned, self.rotary_base)
            }
        for block in self.blocks:
            x_BTD = block(x_BTD, mask_B1TT, **rotation)
        hidden_BTD: Tensor = self.final_norm(x_BTD)
        return hidden_BTD

    def softmax_layer(self) -> tuple[Tensor, None]:
        return (self.softmax or self.embedding).weight, None


class Encoder(nn.Module):
    """BERT without output layers: bidirectional post-LN blocks with biases and learned positions.

    The list `blocks` has the layers. A row may have at most `positions` tokens.
    """

    def __init__(  # noqa: PLR0913  (one keyword for each option of the model)
        self,
        *,
        vocabulary_size: int,
        layers: int,
        embedding_size: int,
        heads: int,
        head_size: HeadSize,
        feedforward_size: int,
        activation: str = "gelu",
        dropout: float = 0.0,
        positions: int = 512,
        attention: AttentionBuilder = MultiHeadAttention,
    ) -> None:
        super().__init__()
        epsilon = 1.0e-12  # as in BERT
        self.embedding = TypedEmbedding(
            vocabulary_size,
            embedding_size,
            positions=positions,
            epsilon=epsilon,
            dropout=dropout,
        )
        self.blocks = nn.ModuleList(
            Block(
                embedding_size,
                layer,
                # Unlike tensor2tensor, BERT has no dropout on the activations.
                FeedForward(embedding_size, feedforward_size, activation, dropout=0.0),
                norm="post",
                normalised=partial(nn.LayerNorm, eps=epsilon),
                dropout=dropout,
            )
            for layer in attention_layers(
                attention,
                layers,
                embedding_size,
                heads,
                head_size,
                bias=True,
                dropout=dropout,
            )
        )
        self.apply(truncated_normal_)

    def forward(self, tokens_BT: Tensor, types_BT: Tensor, real_BT: Tensor) -> Tensor:
        """Return hidden_BTD, the hidden states of the last layer.

        A token attends to all tokens of its row, but not to padding. Padding attends to padding.

        Args:
            types_BT: 0 for the first text of a row, 1 for the second.
            real_BT: False at padding.
        """
        mask_B1TT = attention_mask(real_BT, causal=False)
        x_BTD: Tensor = self.embedding(tokens_BT, types_BT)
        for block in self.blocks:
            x_BTD = block(x_BTD, mask_B1TT)
        return x_BTD

    def embedding_parameters(self) -> list[nn.Parameter]:
        """Return the embeddings of tokens, positions and types."""
        tables = (self.embedding.tokens, self.embedding.positions, self.embedding.types)
        return [parameter for table in tables for parameter in table.parameters()]
