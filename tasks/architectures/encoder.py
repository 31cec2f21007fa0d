"""The `encoder` architecture, which builds models.transformer.Encoder from a config."""

from collections.abc import Iterator
from typing import Annotated

import torch
from torch import nn

from models.transformer import Encoder
from tasks.config.architecture import TransformerSection
from tasks.config.schema import Problem, given, whole

# The standard deviation with which models.initialisation.truncated_normal_ draws weights.
BERT_RANGE = 0.02


class EncoderSection(TransformerSection):
    """The section `model` of an encoder. It adds `positions` and `initializer_range`."""

    positions: Annotated[int, whole(1, 65_536, 512)]
    initializer_range: Annotated[
        float, given("a number above 0 and at most 1", 0.02, gt=0, le=1)
    ]

    def problems(self, path: str = "") -> Iterator[Problem]:
        yield from super().problems(path)
        if not self.tie_embeddings:
            key = f"{path}.tie_embeddings"
            expected = (
                "true, since an encoder predicts masked tokens with the token embedding"
            )
            yield Problem(key, "false", expected, f"set {key}=true")
        glorot = getattr(self.attention, "glorot", "matrix")
        if glorot != "matrix":
            key = f"{path}.attention.glorot"
            expected = "matrix, since an encoder draws all weights as BERT does"
            yield Problem(key, glorot, expected, f"set {key}=matrix")

    def build(self, vocabulary_size: int) -> Encoder:
        options = {"positions": self.positions, **self.options()}
        encoder = Encoder(vocabulary_size=vocabulary_size, **options)
        self.widen(encoder)
        return encoder

    @torch.no_grad()
    def widen(self, module: nn.Module) -> None:
        """Scale newly drawn weights from BERT's standard deviation to `initializer_range`.

        BERT's standard deviation suits an embedding size of about a thousand. A layer's outputs
        grow with the square root of the embedding size. So with BERT's value, the outputs of a tiny
        encoder would be too small to learn from.
        """
        for layer in module.modules():
            if isinstance(layer, nn.Linear | nn.Embedding):
                layer.weight.mul_(self.initializer_range / BERT_RANGE)
