"""Values of a size of their own: multi-head attention at the default, the paper's sum otherwise.

Shapes: B batch, T positions, D embedding_size, H heads, P head_size, U value_size.
"""

from __future__ import annotations

import math

import pytest
import torch

from models.attention.decoupled import DecoupledAttention
from models.attention.multi_head import MultiHeadAttention

B, T, D, H, P, U = 2, 11, 7, 3, 5, 13


@pytest.mark.parametrize("value_size", [None, P])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
def test_it_is_multi_head_attention_where_sizes_are_alike(
    value_size: int | None, bias: bool
) -> None:
    torch.manual_seed(3)
    plain = MultiHeadAttention(D, H, P, bias=bias).double()
    torch.manual_seed(3)
    decoupled = DecoupledAttention(D, H, P, bias=bias, value_size=value_size).double()
    width = H * P
    assert torch.equal(decoupled.query_key.weight, plain.qkv.weight[: 2 * width])
    assert torch.equal(decoupled.value.weight, plain.qkv.weight[2 * width :])
    x_BTD = torch.randn(B, T, D, dtype=torch.float64)
    mask_B1TT = torch.ones(B, 1, T, T, dtype=torch.bool).tril()
    torch.testing.assert_close(
        decoupled(x_BTD, mask_B1TT), plain(x_BTD, mask_B1TT), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("value_size", [1, 2, U])
def test_values_of_any_size_are_mixed_by_the_same_weights(value_size: int) -> None:
    attention = DecoupledAttention(D, H, P, value_size=value_size).double()
    x_TD = torch.randn(T, D, dtype=torch.float64)
    queries, keys = (w.unflatten(0, (H, P)) for w in attention.query_key.weight.chunk(2))
    values = attention.value.weight.unflatten(0, (H, value_size))
    outputs = attention.output.weight.unflatten(1, (H, value_size))
    expected_TD = torch.zeros_like(x_TD)
    for i in range(H):
        logits_TT = (x_TD @ queries[i].T) @ (x_TD @ keys[i].T).T / math.sqrt(P)
        expected_TD += logits_TT.softmax(dim=1) @ (x_TD @ values[i].T) @ outputs[:, i].T
    torch.testing.assert_close(attention(x_TD[None])[0], expected_TD, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
def test_it_costs_what_the_closed_form_says(bias: bool) -> None:
    attention = DecoupledAttention(D, H, P, bias=bias, value_size=U)
    weights = 2 * D * H * (P + U)
    biases = 2 * H * P + H * U + D if bias else 0
    assert sum(p.numel() for p in attention.parameters()) == weights + biases
