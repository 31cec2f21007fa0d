"""The `decoder` architecture: models.transformer.Decoder from the `model` section of a config."""

from __future__ import annotations

from models.transformer import Decoder
from tasks.config.architecture import Architecture, TransformerSection


class DecoderSection(TransformerSection, Architecture):
    """The keys of a decoder are those that every Transformer has."""

    def build(self, vocabulary_size: int) -> Decoder:
        return Decoder(
            vocabulary_size=vocabulary_size,
            layers=self.layers,
            embedding_size=self.embedding_size,
            heads=self.heads,
            head_size=self.resolved_head_size,
            feedforward_size=self.feedforward_size,
            activation=self.activation,
            dropout=self.dropout,
            tie_embeddings=self.tie_embeddings,
            attention=self.attention.builder(),
        )
