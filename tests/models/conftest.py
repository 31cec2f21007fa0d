"""Small models and inputs. Every size is a different prime, so that mixed-up axes raise errors."""

import math
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F

from models.transformer import Decoder, Encoder
from sweeper.store.registry import ATTENTION, names

biases = pytest.mark.parametrize("bias", [True, False])
every_variant = pytest.mark.parametrize("name", names(ATTENTION))
causal_or_not = pytest.mark.parametrize("causal", [True, False])
both_precisions = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-9)], ids=str
)

DECODER = {
    "vocabulary_size": 23,
    "layers": 2,
    "embedding_size": 13,
    "heads": 3,
    "head_size": 5,
    "feedforward_size": 17,
}

ENCODER = {**DECODER, "vocabulary_size": 29, "embedding_size": 15, "positions": 13}


def decoder(**changes):
    """Build a Decoder in double precision and evaluation mode. Keywords override its sizes."""
    return Decoder(**{**DECODER, **changes}).double().eval()


def encoder(**changes):
    """Build an Encoder in double precision and evaluation mode. Keywords override its sizes."""
    return Encoder(**{**ENCODER, **changes}).double().eval()


def normal(*shape):
    """Draw numbers of a normal distribution, in double precision."""
    return torch.randn(*shape, dtype=torch.float64)


def randomise(module, std=1.0):
    """Draw every parameter anew, biases too. With large weights, no activation is nearly linear."""
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=std)


def pack(*lengths, padding=0):
    """Pack sentences of random tokens into one row: tokens_1T, segments_1T, positions_1T."""
    tokens = torch.randint(DECODER["vocabulary_size"], (1, sum(lengths) + padding))
    segments = [number for number, n in enumerate(lengths, 1) for _ in range(n)]
    positions = [position for n in (*lengths, padding) for position in range(n)]
    segments += padding * [0]
    return tokens, torch.tensor([segments]), torch.tensor([positions])


@pytest.fixture
def batch():
    """Five rows of different lengths: tokens_BT, types_BT and real_BT (False at padding)."""
    lengths = torch.tensor([[11], [7], [1], [5], [3]])
    tokens_BT = torch.randint(ENCODER["vocabulary_size"], (5, 11))
    return tokens_BT, torch.randint(2, (5, 11)), torch.arange(11) < lengths


@pytest.fixture
def attended(monkeypatch):
    """A spy, whose `call_args_list` has each call of scaled_dot_product_attention."""
    spy = Mock(wraps=F.scaled_dot_product_attention)
    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    return spy


def assert_same(actual, expected, tolerance=1e-12):
    """Assert that tensors, or sequences of tensors, differ by this much at most."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


def causal_mask(rows, length):
    """Return mask_B1TT, in which each position sees itself and those before it."""
    return torch.ones(rows, 1, length, length, dtype=torch.bool).tril()


def influence(model, batch, position):
    """Return gradient_BTD of the hidden states at a position with respect to the embeddings."""
    seen = []
    handle = model.embedding.register_forward_hook(lambda *call: seen.append(call[-1]))
    hidden_BD = model(*batch)[:, position]
    handle.remove()
    (gradient_BTD,) = torch.autograd.grad(
        (hidden_BD * torch.randn_like(hidden_BD)).sum(), seen
    )
    return gradient_BTD


def sum_over_heads(x_TD, queries, keys, values, outputs):
    """Return the paper's sum over heads (eq. 8 and 9). The arguments list the heads' weights."""
    total_TD = torch.zeros_like(x_TD)
    for query_PD, key_PD, value_UD, output_DU in zip(
        queries, keys, values, outputs, strict=True
    ):
        logits_TT = (x_TD @ query_PD.T) @ (x_TD @ key_PD.T).T / math.sqrt(len(query_PD))
        total_TD += logits_TT.softmax(dim=1) @ (x_TD @ value_UD.T) @ output_DU.T
    return total_TD
