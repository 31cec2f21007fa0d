"""Collaborative attention contains multi-head attention, and decouples rank from parameters.

Shapes: B batch, T positions, D embedding_size, H heads, P head_size, S shared_size.
"""

import math

import pytest
import torch

from models.attention.collaborative import CollaborativeAttention
from models.attention.multi_head import MultiHeadAttention
from models.factorise import factorise
from models.measure import forward_flops
from tests.models.conftest import assert_same, biases, normal, randomise

B, T, D, H, P = 2, 7, 13, 3, 5
S = 11


@pytest.mark.parametrize("shared_size", [None, S])
@biases
def test_equals_its_formula_with_the_scale_of_the_head_size(shared_size, bias):
    attention = CollaborativeAttention(
        D, H, P, bias=bias, shared_size=shared_size
    ).double()
    randomise(attention)
    x_BTD = normal(B, T, D)
    heads = []
    for i in range(H):
        mixed_BTS = attention.query(x_BTD) * attention.mixing[i]
        logits_BTT = mixed_BTS @ attention.key(x_BTD).transpose(1, 2)
        if attention.content_bias is not None:
            logits_BTT = logits_BTT + (x_BTD @ attention.content_bias[i]).unsqueeze(1)
        values_BTP = attention.value(x_BTD)[..., i * P : (i + 1) * P]
        heads.append((logits_BTT / math.sqrt(P)).softmax(-1) @ values_BTP)
    expected_BTD = attention.output(torch.cat(heads, dim=-1))
    assert_same(attention(x_BTD), expected_BTD, 1e-11)


@pytest.mark.parametrize("extra", [0, 2])
@biases
def test_any_factors_of_its_products_give_the_outputs_of_multi_head_attention(
    bias, extra
):
    """The coordinates of the factors may have any order and scale, and some may be unused."""
    attention = MultiHeadAttention(D, H, P, bias=bias).double().requires_grad_(False)
    randomise(attention)
    x_BTD = normal(B, T, D)
    mask_B1TT = (torch.rand(B, 1, T, T) < 0.5) | torch.eye(T, dtype=torch.bool)
    query_WD, key_WD, _ = attention.qkv.weight.chunk(3)
    order = torch.randperm(H * P + extra)
    scales = torch.rand(2, H * P + extra, dtype=torch.float64) + 0.5

    def widened(factor, scale):
        noise = normal(len(factor), extra)
        return (torch.cat((factor, noise), dim=1) * scale)[:, order]

    query_DS = widened(query_WD.T, scales[0])
    key_DS = widened(key_WD.T, scales[1])
    of_heads_HS = torch.eye(H, dtype=torch.float64).repeat_interleave(P, dim=1)
    mixing_HS = widened(of_heads_HS, 1 / scales.prod(0))
    mixing_HS[:, order >= H * P] = 0
    made = CollaborativeAttention.from_factors(attention, query_DS, mixing_HS, key_DS)
    assert_same(made(x_BTD, mask_B1TT), attention(x_BTD, mask_B1TT), 1e-11)


@biases
@pytest.mark.parametrize("shared_size", [2, S, None])
def test_parameters_and_flops_equal_the_closed_form(bias, shared_size):
    with torch.device("meta"):
        attention = CollaborativeAttention(D, H, P, bias=bias, shared_size=shared_size)
        x_BTD = torch.zeros(B, T, D)
    s, w = shared_size or H * P, H * P
    parameters = 2 * D * s + H * s + 2 * D * w + bias * (H * D + w + D)
    assert sum(parameter.numel() for parameter in attention.parameters()) == parameters
    per_position = 4 * D * s + 4 * D * w + 2 * H * T * (s + P) + bias * 2 * D * H
    assert forward_flops(lambda: attention(x_BTD)) == B * T * per_position


def test_fresh_logits_are_as_large_as_those_of_multi_head_attention():
    """Both add up `head_size` products of a query and a key, which the mixing here weights."""
    for shared_size in (17, 41, None):
        layer = CollaborativeAttention(101, 7, 13, shared_size=shared_size)
        assert layer.mixing.square().sum(1).mean().item() == pytest.approx(13, rel=0.2)


def _error(query_HPD, key_HPD, size):
    wanted_HDD = query_HPD.mT @ key_HPD
    found_HDD = torch.einsum("ds,hs,es->hde", *factorise(query_HPD, key_HPD, size))
    return float((found_HDD - wanted_HDD).norm() / wanted_HDD.norm())


def test_heads_that_share_are_found_to_share():
    """All heads have common factors of size 2. The size of each head is 5."""
    pytest.importorskip("tensorly")
    common_QD, common_KD = normal(2, 2, D)
    into_HPQ = normal(H, P, 2)
    mixing_HQ = torch.rand(H, 2, dtype=torch.float64) + 0.5
    query_HPD = torch.linalg.pinv(into_HPQ).mT @ (mixing_HQ.unsqueeze(-1) * common_QD)
    key_HPD = into_HPQ @ common_KD
    assert _error(query_HPD, key_HPD, 2) < 1e-3
    assert _error(query_HPD, key_HPD, 1) > 0.1


def test_a_larger_size_is_nearer_and_nothing_random_decides():
    pytest.importorskip("tensorly")
    query_HPD, key_HPD = normal(2, H, P, D)
    errors = [_error(query_HPD, key_HPD, size) for size in (2, 5, 7, 11, 15)]
    assert errors == sorted(errors, reverse=True)
    torch.manual_seed(1)
    first = factorise(query_HPD, key_HPD, 7)
    torch.manual_seed(2)
    assert all(map(torch.equal, first, factorise(query_HPD, key_HPD, 7)))


@pytest.mark.parametrize("size", [80, 64, 70])
def test_heads_larger_than_the_embedding_have_equal_products(size):
    query_HPD, key_HPD = normal(2, 2, 40, 32)
    assert _error(query_HPD, key_HPD, size) < 1e-12


@pytest.mark.parametrize("size", [8, 11, 14])
def test_equal_heads_and_heads_of_zero_can_be_factorised(size):
    pytest.importorskip("tensorly")
    query_HPD, key_HPD = normal(2, H, P, D)
    equal = (one[:1].expand(H, -1, -1) for one in (query_HPD, key_HPD))
    assert _error(*equal, size) < 1e-3
    query_HPD[2] = 0
    assert _error(query_HPD, key_HPD, size) < (0.5 if size < 10 else 1e-6)
