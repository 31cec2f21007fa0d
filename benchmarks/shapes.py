"""The models that are timed, ours and the peers', and the step they are timed in.

Every model of a shape has the same layers, widths, heads and head size; where a peer's feed-forward
layer has three matrices, they are two thirds as wide. All embeddings are tied, nothing is dropped.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.measure import forward_flops
from models.transformer import Decoder

Loss = Callable[[], Tensor]


@dataclass(frozen=True)
class Shape:
    """A decoder and its batch: `rows` of `length` positions."""

    layers: int
    embedding_size: int
    heads: int
    head_size: int
    feedforward_size: int
    vocabulary_size: int
    rows: int
    length: int

    @property
    def tokens(self) -> int:
        return self.rows * self.length

    def decoder(self) -> Decoder:
        """Return our model of this shape."""
        return Decoder(
            vocabulary_size=self.vocabulary_size,
            layers=self.layers,
            embedding_size=self.embedding_size,
            heads=self.heads,
            head_size=self.head_size,
            feedforward_size=self.feedforward_size,
        )

    def training_flops(self) -> int:
        """Return the operations of a step of ours: three times those of the forward pass."""
        with torch.device("meta"):
            model = self.decoder()
            row = torch.zeros(self.rows, self.length, dtype=torch.long)
            return 3 * forward_flops(lambda: model.logits(model(row, row, row)))


SHAPES = {
    "tiny32": Shape(2, 64, 8, 32, 256, 4096, 8, 256),
    "d256-h8": Shape(6, 256, 8, 32, 1024, 32768, 2, 256),
}
SMOKE = {"smoke": Shape(1, 8, 2, 4, 16, 64, 2, 16)}


@dataclass(frozen=True)
class Batch:
    """Rows of sentences, as ours come packed; the peers see them as one text each."""

    tokens_BT: Tensor
    targets_BT: Tensor
    segments_BT: Tensor
    positions_BT: Tensor

    @classmethod
    def drawn(cls, shape: Shape, sentence: int = 32) -> Batch:
        """Return sentences of that many pieces without padding."""
        text_BT = torch.randint(2, shape.vocabulary_size, (shape.rows, shape.length + 1))
        places_T = torch.arange(shape.length)
        return cls(
            text_BT[:, :-1].contiguous(),
            text_BT[:, 1:].contiguous(),
            (places_T // sentence + 1).expand(shape.rows, -1),
            (places_T % sentence).expand(shape.rows, -1),
        )


def headroom(shape: Shape, batch: Batch, *, compiled: bool) -> tuple[nn.Module, Loss]:
    """Our decoder, its blocks compiled as `trainer.compile` does."""
    model = shape.decoder()
    for block in model.blocks if compiled else ():
        block.compile()
    return model, decoder_loss(model, batch)


def decoder_loss(model: Decoder, batch: Batch) -> Loss:
    """The loss of our decoder, as the language-model task takes it."""

    def loss() -> Tensor:
        hidden_BTD = model(batch.tokens_BT, batch.segments_BT, batch.positions_BT)
        nats, count = model.loss(hidden_BTD, batch.targets_BT)
        return nats / count

    return loss


def mistral(shape: Shape, batch: Batch, *, compiled: bool) -> tuple[nn.Module, Loss]:
    """Hugging Face's Mistral, which takes any head size (its Llama does not)."""
    transformers = importlib.import_module("transformers")
    config = transformers.MistralConfig(
        vocab_size=shape.vocabulary_size,
        hidden_size=shape.embedding_size,
        intermediate_size=2 * shape.feedforward_size // 3,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.head_size,
        max_position_embeddings=shape.length,
        tie_word_embeddings=True,
        sliding_window=None,
        use_cache=False,
    )
    model: nn.Module = transformers.MistralForCausalLM(config)
    called = torch.compile(model) if compiled else model
    return model, lambda: called(input_ids=batch.tokens_BT, labels=batch.tokens_BT).loss


def x_transformers(shape: Shape, batch: Batch, *, compiled: bool) -> tuple[nn.Module, Loss]:
    """The decoder of x-transformers, with fused attention."""
    library = importlib.import_module("x_transformers")
    model: nn.Module = library.TransformerWrapper(
        num_tokens=shape.vocabulary_size,
        max_seq_len=shape.length,
        tie_embedding=True,
        attn_layers=library.Decoder(
            dim=shape.embedding_size,
            depth=shape.layers,
            heads=shape.heads,
            attn_dim_head=shape.head_size,
            attn_flash=True,
            ff_mult=shape.feedforward_size / shape.embedding_size,
        ),
    )
    called = torch.compile(model) if compiled else model

    def loss() -> Tensor:
        return F.cross_entropy(called(batch.tokens_BT).flatten(0, 1), batch.targets_BT.flatten())

    return model, loss


def step(model: nn.Module, loss: Loss) -> Callable[[], None]:
    """Return what is timed: forward, backward and fused AdamW, the same for every model."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def run() -> None:
        loss().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return run
