"""PyTorch's own Transformer layers as a language model."""

from typing import Annotated

from torch import Tensor, nn

from models.embedding import TokenEmbedding
from models.language_model import LanguageModel
from models.mask import attention_mask
from sweeper.store.errors import invalid_value
from tasks.config.architecture import Architecture
from tasks.config.schema import whole


class PyTorchDecoder(LanguageModel):
    def __init__(
        self,
        table: TokenEmbedding,
        layer: nn.TransformerEncoderLayer,
        layers: int,
        heads: int,
    ):
        super().__init__()
        self.table, self.heads = table, heads
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, tokens: Tensor, segments: Tensor, positions: Tensor) -> Tensor:
        """Return the hidden states, of shape (B, T, D)."""
        # The masks of nn.TransformerEncoder are True where a key is hidden.
        hidden = ~attention_mask(segments, causal=True).as_subclass(Tensor)
        hidden_of_heads = hidden.expand(-1, self.heads, -1, -1).flatten(0, 1)
        x_BTD: Tensor = self.layers(self.table(tokens, positions), hidden_of_heads)
        return x_BTD

    def softmax_layer(self) -> tuple[Tensor, None]:
        return self.table.weight, None


class PyTorchSection(Architecture):
    layers: Annotated[int, whole(1, 1024, 6)]
    feedforward_size: Annotated[int, whole(1, 2**22, 1024)]
    dropout: float

    def build(self, vocabulary_size: int) -> PyTorchDecoder:
        if self.resolved_head_size != self.embedding_size / self.heads:
            key = "model.head_size"
            only = "null, since PyTorch's heads have the size embedding_size / heads"
            raise invalid_value(key, self.head_size, only, "leave it out")
        sizes = (self.embedding_size, self.heads, self.feedforward_size, self.dropout)
        layer = nn.TransformerEncoderLayer(*sizes, batch_first=True, norm_first=True)
        table = TokenEmbedding(vocabulary_size, self.embedding_size)
        return PyTorchDecoder(table, layer, self.layers, self.heads)
