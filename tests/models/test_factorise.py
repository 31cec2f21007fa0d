"""Shared factors of heads: exact where they can be, nearer than the largest directions elsewhere.

Shapes: H heads, P head_size, D embedding_size, S shared_size.
"""

import pytest
import torch

from models.attention.collaborative import CollaborativeAttention
from models.attention.multi_head import MultiHeadAttention
from models.factorise import factorise

H, P, D = 3, 5, 13
PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-12)]


def _products(query_DS, mixing_HS, key_DS):
    return torch.einsum("ds,hs,es->hde", query_DS, mixing_HS, key_DS)


def _error(query_HPD, key_HPD, size):
    wanted = query_HPD.mT @ key_HPD
    return float((_products(*factorise(query_HPD, key_HPD, size)) - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("size", [H * P, H * P + 2])
def test_of_full_size_the_factors_are_exact(size):
    query_HPD, key_HPD = torch.randn(2, H, P, D, dtype=torch.float64)
    assert _error(query_HPD, key_HPD, size) < 1e-12


def test_heads_that_share_are_found_to_share():
    """Products with common factors of size 2, under projections of size 5 a head."""
    pytest.importorskip("tensorly")
    common_QD, common_KD = torch.randn(2, 2, D, dtype=torch.float64)
    into_HPQ = torch.randn(H, P, 2, dtype=torch.float64)
    mixing_HQ = torch.rand(H, 2, dtype=torch.float64) + 0.5
    query_HPD = torch.linalg.pinv(into_HPQ).mT @ (mixing_HQ.unsqueeze(-1) * common_QD)
    key_HPD = into_HPQ @ common_KD
    assert _error(query_HPD, key_HPD, 2) < 1e-3
    assert _error(query_HPD, key_HPD, 1) > 0.1


def test_a_larger_size_is_nearer_and_nothing_random_decides():
    pytest.importorskip("tensorly")
    query_HPD, key_HPD = torch.randn(2, H, P, D, dtype=torch.float64)
    errors = [_error(query_HPD, key_HPD, size) for size in (2, 5, 7, 11, 15)]
    assert errors == sorted(errors, reverse=True)
    torch.manual_seed(1)
    first = factorise(query_HPD, key_HPD, 7)
    torch.manual_seed(2)
    assert all(map(torch.equal, first, factorise(query_HPD, key_HPD, 7)))


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS, ids=["float32", "float64"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
def test_of_full_size_an_attention_computes_what_it_did(dtype, tolerance, bias):
    attention = MultiHeadAttention(D, H, P, bias=bias).to(dtype)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    weights = [w.detach().unflatten(0, (H, P)) for w in attention.qkv.weight.chunk(3)[:2]]
    factors = factorise(weights[0], weights[1], H * P)
    made = CollaborativeAttention.from_factors(attention, *factors)
    x_BTD = torch.randn(2, 7, D, dtype=dtype)
    torch.testing.assert_close(made(x_BTD), attention(x_BTD), rtol=0, atol=tolerance)
