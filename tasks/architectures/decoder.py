"""The `decoder` architecture: models.transformer.Decoder from the `model` section of a config."""

from __future__ import annotations

from models.transformer import Decoder
from tasks.config.architecture import TransformerSection


class DecoderSection(TransformerSection):
    """The keys of a decoder are those that every Transformer has."""

    def build(self, vocabulary_size: int) -> Decoder:
        options = {"tie_embeddings": self.tie_embeddings, **self.options()}
        return Decoder(vocabulary_size=vocabulary_size, **options)
