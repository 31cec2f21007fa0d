"""Multi-head attention equals PyTorch's. Decoupled attention equals the paper's sum over heads.

test_head_sizes.py tests that multi-head attention is the paper's sum over heads.

Shapes: B batch, T positions, D embedding_size, H heads, P head_size, U value_size.
"""

import math

import pytest
import torch
from torch import nn

from models.attention.decoupled import DecoupledAttention
from models.attention.grouped_query import GroupedQueryAttention
from models.attention.latent import LatentAttention
from models.attention.multi_head import MultiHeadAttention
from tests.models.conftest import (
    assert_same,
    biases,
    causal_mask,
    normal,
    randomise,
    sum_over_heads,
)

B, T, D, H, P, U = 2, 11, 7, 3, 5, 13


NAMES = {
    "qkv.weight": "in_proj_weight",
    "qkv.bias": "in_proj_bias",
    "output.weight": "out_proj.weight",
    "output.bias": "out_proj.bias",
}


@biases
@pytest.mark.parametrize("masked", [True, False])
def test_equals_torch_at_the_standard_head_size(bias, masked):
    reference = nn.MultiheadAttention(H * P, H, bias=bias, batch_first=True).double()
    # PyTorch initialises biases to zero, which would hide a forgotten bias.
    randomise(reference, std=0.5)
    attention = MultiHeadAttention(H * P, H, P, bias=bias).double()
    ours = dict(attention.named_parameters())
    theirs = [reference.get_parameter(NAMES[name]) for name in ours]
    attention.load_state_dict(dict(zip(ours, theirs, strict=True)))
    x_BTD = normal(B, T, H * P).requires_grad_()
    mask_B1TT = (torch.rand(B, 1, T, T) < 0.5) | torch.eye(T, dtype=torch.bool)
    forbidden = ~mask_B1TT.expand(B, H, T, T).flatten(0, 1) if masked else None

    expected_BTD, _ = reference(
        x_BTD, x_BTD, x_BTD, attn_mask=forbidden, need_weights=False
    )
    actual_BTD = attention(x_BTD, mask_B1TT if masked else None)
    assert_same(actual_BTD, expected_BTD)

    weights_BTD = torch.randn_like(x_BTD)
    actual, expected = (
        torch.autograd.grad((output_BTD * weights_BTD).sum(), [x_BTD, *parameters])
        for output_BTD, parameters in (
            (actual_BTD, ours.values()),
            (expected_BTD, theirs),
        )
    )
    assert_same(actual, expected)


def test_each_projection_is_drawn_by_its_own_shape():
    plain = MultiHeadAttention(37, 11, 13)
    grouped = GroupedQueryAttention(37, 12, 13, key_value_heads=3)
    latent = LatentAttention(37, 11, 13, latent_size=53, rotary_size=18)
    projections = [
        *plain.qkv.weight.chunk(3),
        plain.output.weight,
        *grouped.qkv.weight.split([156, 39, 39]),
        *latent.shared.weight.split([53, 18]),
        latent.key.weight,
    ]
    for weight in projections:
        bound = math.sqrt(6 / sum(weight.shape))
        assert 0.99 * bound < weight.abs().max() <= bound


@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("shared", [2, 6])
def test_heads_that_share_keys_are_heads_with_copies_of_them(shared, qk_norm):
    heads = 6
    grouped = GroupedQueryAttention(
        D, heads, P, key_value_heads=shared, qk_norm=qk_norm
    ).double()
    plain = MultiHeadAttention(D, heads, P, qk_norm=qk_norm).double()
    sizes = [heads * P, shared * P, shared * P]
    query, *both = grouped.qkv.weight.split(sizes)
    copies = (
        w.unflatten(0, (shared, P)).repeat_interleave(heads // shared, 0) for w in both
    )
    weight = torch.cat([query, *(copy.flatten(0, 1) for copy in copies)])
    plain.load_state_dict({**grouped.state_dict(), "qkv.weight": weight})
    x_BTD, mask_B1TT = normal(B, T, D), causal_mask(B, T)
    assert_same(grouped(x_BTD, mask_B1TT), plain(x_BTD, mask_B1TT))


def test_normalised_queries_and_keys_have_the_scales_that_they_learned(attended):
    attention = MultiHeadAttention(D, H, P, qk_norm=True).double()
    nn.init.constant_(attention.norm.query, 3.0)
    nn.init.constant_(attention.norm.key, 0.5)
    attention(1000 * normal(B, T, D))
    [((query, key, _), _)] = attended.call_args_list
    for one, scale in ((query, 3.0), (key, 0.5)):
        rms_BHT = one.square().mean(-1).sqrt()
        torch.testing.assert_close(
            rms_BHT, torch.full_like(rms_BHT, scale), rtol=1e-4, atol=0
        )


@pytest.mark.parametrize("value_size", [None, P])
@biases
def test_decoupled_is_multi_head_attention_where_sizes_are_alike(value_size, bias):
    torch.manual_seed(3)
    plain = MultiHeadAttention(D, H, P, bias=bias).double()
    torch.manual_seed(3)
    decoupled = DecoupledAttention(D, H, P, bias=bias, value_size=value_size).double()
    weights = torch.cat((decoupled.query_key.weight, decoupled.value.weight))
    assert torch.equal(weights, plain.qkv.weight)
    x_BTD, mask_B1TT = normal(B, T, D), causal_mask(B, T)
    assert_same(decoupled(x_BTD, mask_B1TT), plain(x_BTD, mask_B1TT))


@pytest.mark.parametrize("value_size", [1, 2, U])
def test_values_of_any_size_are_mixed_by_the_same_weights(value_size):
    attention = DecoupledAttention(D, H, P, value_size=value_size).double()
    x_TD = normal(T, D)
    queries, keys = (
        w.unflatten(0, (H, P)) for w in attention.query_key.weight.chunk(2)
    )
    values = attention.value.weight.unflatten(0, (H, value_size))
    outputs = attention.output.weight.split(value_size, dim=1)
    expected_TD = sum_over_heads(x_TD, queries, keys, values, outputs)
    assert_same(attention(x_TD[None])[0], expected_TD)
