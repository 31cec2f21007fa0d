"""Models small enough to check by hand, with a different prime for every size."""

import pytest
import torch

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


@pytest.fixture
def decoder():
    """Build a Decoder in double precision and evaluation mode; keywords override its sizes."""

    def build(**changes):
        return Decoder(**{**DECODER, **changes}).double().eval()

    return build


@pytest.fixture
def pack():
    """Pack sentences of random tokens into one row: tokens_1T, segments_1T, positions_1T."""

    def build(*lengths, padding=0):
        tokens = torch.randint(DECODER["vocabulary_size"], (1, sum(lengths) + padding))
        segments = [segment for segment, n in enumerate(lengths, start=1) for _ in range(n)]
        positions = [position for n in (*lengths, padding) for position in range(n)]
        return tokens, torch.tensor([segments + padding * [0]]), torch.tensor([positions])

    return build


@pytest.fixture
def encoder():
    """Build an Encoder in double precision and evaluation mode; keywords override its sizes."""

    def build(**changes):
        return Encoder(**{**ENCODER, **changes}).double().eval()

    return build


@pytest.fixture
def batch():
    """Five rows of different lengths: tokens_BT, types_BT, and real_BT, which are not padding."""
    lengths = torch.tensor([[11], [7], [1], [5], [3]])
    tokens_BT = torch.randint(ENCODER["vocabulary_size"], (5, 11))
    return tokens_BT, torch.randint(2, (5, 11)), torch.arange(11) < lengths
