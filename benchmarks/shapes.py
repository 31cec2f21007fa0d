"""The models that are timed, ours and the peers', and the step they are timed in.

Every model of a shape has the same layers, widths, heads and head size; where a peer's feed-forward
layer has three matrices, they are two thirds as wide. All embeddings are tied, nothing is dropped.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.sentences import Row, lengths, packed
from models.cross_entropy import IGNORED
from models.measure import forward_flops
from models.transformer import Decoder
from tasks.training.machine import keep_memory

Loss = Callable[[], Tensor]
Maker = Callable[..., tuple[nn.Module, Loss]]
"""Called as `maker(shape, batch, compiled=...)`."""


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
        return Decoder(
            vocabulary_size=self.vocabulary_size,
            layers=self.layers,
            embedding_size=self.embedding_size,
            heads=self.heads,
            head_size=self.head_size,
            feedforward_size=self.feedforward_size,
        )


SHAPES = {
    "tiny32": Shape(2, 64, 8, 32, 256, 4096, 8, 256),
    "d256-h8": Shape(6, 256, 8, 32, 1024, 32768, 2, 256),
    "d256-h70": Shape(6, 256, 70, 32, 1024, 32768, 2, 256),
    "d512-h8": Shape(6, 512, 8, 64, 2048, 32768, 2, 256),
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
    def drawn(cls, shape: Shape) -> Batch:
        """Return full rows of sentences as long as LM1B's."""
        sentences = lengths(shape.length, count=shape.tokens)  # more than fit
        return cls.of(packed(sentences, shape.length)[: shape.rows], shape.length, shape)

    @classmethod
    def of(cls, rows: Sequence[Row], width: int, shape: Shape) -> Batch:
        """Return random words in rows of segments of the given lengths."""
        tokens_BT = torch.randint(2, shape.vocabulary_size, (len(rows), width))
        segments_BT = torch.zeros(len(rows), width, dtype=torch.long)
        positions_BT = torch.zeros_like(segments_BT)
        for row, segments in enumerate(rows):
            start = 0
            for number, length in enumerate(segments, start=1):
                segments_BT[row, start : start + length] = number
                positions_BT[row, start : start + length] = torch.arange(length)
                start += length
        targets_BT = tokens_BT.roll(-1, 1).masked_fill(segments_BT == 0, IGNORED)
        return cls(tokens_BT, targets_BT, segments_BT, positions_BT)


def alone(*, keep: bool = True) -> None:
    """Seed the process and set it up as a job does: one thread and, with `keep`, memory kept."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if keep:
        keep_memory()


def training_flops(model: Decoder, batch: Batch) -> int:
    """Return the operations of a step of ours on a batch: three times those of its forward pass.

    Products between the positions of different sentences, which are not computed, do not count.
    """
    with torch.no_grad():
        args = (batch.tokens_BT, batch.segments_BT, batch.positions_BT)
        return 3 * forward_flops(lambda: model.logits(model(*args)))


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
