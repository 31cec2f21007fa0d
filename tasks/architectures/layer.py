"""The `layer` architecture: one attention layer alone, from the `model` section of a config."""

from torch import nn

from tasks.config.architecture import Architecture


class LayerSection(Architecture):
    """The keys of a layer are those that every architecture has."""

    def build(self) -> nn.Module:
        """Return the layer; it has no biases and no dropout, since theorems have none."""
        build = self.attention.builder()
        return build(self.embedding_size, self.heads, self.one_head_size, bias=False, dropout=0.0)
