"""The `layer` architecture: one attention layer alone, from the `model` section of a config."""

from torch import nn

from tasks.config.architecture import WithAttention


class LayerSection(WithAttention):
    """The section `model` of a single attention layer."""

    def build(self) -> nn.Module:
        """Return the layer. As in the paper's theorems, it has no biases and no dropout."""
        build = self.attention.builder()
        return build(
            self.embedding_size, self.heads, self.one_head_size, bias=False, dropout=0.0
        )
