"""Rank and entropy of heads agree with their definitions, for every attention variant.

Shapes: B batch, T positions, D embedding_size, H heads, P head_size.
"""

import math

import pytest
import torch

from models.attention.multi_head import MultiHeadAttention
from models.attention_map import (
    TOLERANCE,
    attention_weights,
    head_measures,
    numerical_rank,
)
from models.mask import attention_mask
from tasks.config.architecture import variant
from tests.models.conftest import biases, causal_mask, every_variant

B, T, D, H = 2, 11, 23, 3


@pytest.fixture
def eigenvalues_of(monkeypatch):
    """Collect the matrices whose eigenvalues are computed."""
    matrices, eigvalsh = [], torch.linalg.eigvalsh
    monkeypatch.setattr(
        torch.linalg, "eigvalsh", lambda x: matrices.append(x) or eigvalsh(x)
    )
    return matrices


@every_variant
@biases
def test_every_variant_is_seen_and_none_is_changed(name, bias):
    attention = variant(name)(D, H, 2, bias=bias)
    x_BTD, mask_B1TT = torch.randn(B, T, D), causal_mask(B, T)
    outputs = [attention(x_BTD, mask_B1TT)]
    [found] = head_measures(lambda: outputs.append(attention(x_BTD, mask_B1TT)))
    assert torch.equal(*outputs)
    assert found.rank_H.shape == found.entropy_H.shape == (H,)
    assert ((found.rank_H >= 1) & (found.rank_H < T)).all()
    assert ((found.entropy_H > 0) & (found.entropy_H < math.log(T))).all()
    [weights_BHTT] = attention_weights(lambda: attention(x_BTD, mask_B1TT))
    assert torch.allclose(weights_BHTT.sum(-1), torch.ones(B, H, T))
    assert torch.equal(weights_BHTT > 0, mask_B1TT.expand(B, H, T, T))


@pytest.mark.parametrize("head_size", [3, T, 2 * T])
@pytest.mark.parametrize("independent", [1, 3, 2 * T])
def test_the_rank_is_counted_as_by_singular_values(
    head_size, independent, eigenvalues_of
):
    few = min(independent, head_size)
    # Spread over five powers of ten, so that some singular values do not count.
    spread_P = torch.logspace(0, -5, head_size)
    left = torch.randn(B, H, T, few) @ torch.randn(B, H, few, head_size) * spread_P
    right = torch.randn(B, H, T, head_size)
    logits = left.double() @ (right - right.mean(-2, keepdim=True)).double().mT
    values = torch.linalg.svdvals(logits)
    expected = (values > TOLERANCE * values[..., :1]).sum(-1)
    assert (expected < min(head_size, T)).all()
    assert torch.equal(numerical_rank(left, right).long(), expected)
    # The eigenvalues, which take long, are those of a matrix as small as the head or the sequence.
    [product] = eigenvalues_of
    assert product.shape[-2:] == (min(head_size, T),) * 2


@every_variant
@biases
def test_autocast_does_not_reach_the_measures(name, bias, eigenvalues_of):
    """A GPU cannot compute eigenvalues in bfloat16."""
    attention = variant(name)(D, H, 2, bias=bias)
    x_BTD = torch.randn(B, T, D)
    with torch.autocast("cpu", torch.bfloat16):
        assert attention(x_BTD).dtype == torch.bfloat16
        head_measures(lambda: attention(x_BTD))
    [product] = eigenvalues_of
    assert product.dtype == torch.float64


def test_a_compiled_model_is_seen_too():
    attention = MultiHeadAttention(D, H, 5)
    x_BTD = torch.randn(B, T, D)
    plain = head_measures(lambda: attention(x_BTD))
    attention.compile(backend="eager")
    attention(x_BTD)
    [compiled] = head_measures(lambda: attention(x_BTD))
    assert torch.equal(compiled.rank_H, plain[0].rank_H)


def test_padding_behind_a_row_changes_nothing():
    attention = MultiHeadAttention(D, H, 5)
    x_BTD, more = torch.randn(B, T, D), 4
    padded_BTD = torch.cat([x_BTD, torch.randn(B, more, D)], dim=1)
    real_BT = (torch.arange(T + more) < T).expand(B, -1)
    mask_B1TT = attention_mask(real_BT.long(), causal=True)
    [expected] = head_measures(lambda: attention(x_BTD, mask_B1TT[..., :T, :T]))
    [found] = head_measures(lambda: attention(padded_BTD, mask_B1TT), real_BT)
    assert torch.equal(found.rank_H, expected.rank_H)
    torch.testing.assert_close(found.entropy_H, expected.entropy_H)
