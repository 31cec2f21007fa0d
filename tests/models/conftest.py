"""Models small enough to check by hand, with a different prime for every size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from models.transformer import Decoder, Encoder

DECODER = {
    "vocabulary_size": 23,
    "layers": 2,
    "embedding_size": 13,
    "heads": 3,
    "head_size": 5,
    "feedforward_size": 17,
}

ENCODER = {
    "vocabulary_size": 29,
    "layers": 2,
    "embedding_size": 15,
    "heads": 3,
    "head_size": 5,
    "feedforward_size": 17,
    "positions": 13,
}

Row = tuple[Tensor, Tensor, Tensor]


@pytest.fixture
def decoder() -> Callable[..., Decoder]:
    """Build a Decoder in double precision and evaluation mode; keywords override its sizes."""

    def build(**changes: Any) -> Decoder:
        return Decoder(**{**DECODER, **changes}).double().eval()

    return build


@pytest.fixture
def pack() -> Callable[..., Row]:
    """Pack sentences of random tokens into one row: tokens_1T, segments_1T, positions_1T."""

    def build(*lengths: int, padding: int = 0) -> Row:
        tokens = torch.randint(DECODER["vocabulary_size"], (1, sum(lengths) + padding))
        segments = [segment for segment, n in enumerate(lengths, start=1) for _ in range(n)]
        positions = [position for n in (*lengths, padding) for position in range(n)]
        return tokens, torch.tensor([segments + padding * [0]]), torch.tensor([positions])

    return build


@pytest.fixture
def encoder() -> Callable[..., Encoder]:
    """Build an Encoder in double precision and evaluation mode; keywords override its sizes."""

    def build(**changes: Any) -> Encoder:
        return Encoder(**{**ENCODER, **changes}).double().eval()

    return build


@pytest.fixture
def batch() -> Row:
    """Five rows of different lengths: tokens_BT, types_BT, and real_BT, which are not padding."""
    lengths = torch.tensor([[11], [7], [1], [5], [3]])
    tokens_BT = torch.randint(ENCODER["vocabulary_size"], (5, 11))
    return tokens_BT, torch.randint(2, (5, 11)), torch.arange(11) < lengths
