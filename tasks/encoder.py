"""The `encoder` architecture: models.transformer.Encoder from the `model` section of a config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from models.transformer import Encoder
from tasks.architecture import Architecture
from tasks.schema import Problem, whole


class EncoderSection(Architecture):
    """An encoder's keys: those of every architecture, and how many positions it can tell apart."""

    positions: Annotated[int, whole(1, 65_536, 512)]

    def problems(self, path: str) -> Iterator[Problem]:
        yield from super().problems(path)
        if not self.tie_embeddings:
            key = f"{path}.tie_embeddings"
            expected = "true, since an encoder's masked tokens are told by the token embedding"
            yield Problem(key, "false", expected, f"give it as {key}=true")

    def build(self, vocabulary_size: int) -> Encoder:
        return Encoder(
            vocabulary_size=vocabulary_size,
            layers=self.layers,
            embedding_size=self.embedding_size,
            heads=self.heads,
            head_size=self.resolved_head_size,
            feedforward_size=self.feedforward_size,
            activation=self.activation,
            dropout=self.dropout,
            positions=self.positions,
            attention=self.attention.builder(),
        )
