"""The `layer` architecture: a single attention layer, built from the config section `model`."""

from torch import nn

from tasks.config.architecture import WithAttention


class LayerSection(WithAttention):
    """The section `model` of a single attention layer."""

    def build(self) -> nn.Module:
        """Return the attention layer. As in the paper's theorems, it has no biases or dropout."""
        build = self.attention.builder()
        return build(
            self.embedding_size, self.heads, self.one_head_size, bias=False, dropout=0.0
        )
