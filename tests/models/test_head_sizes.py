"""Heads of equal sizes give the plain model. Heads of different sizes give the paper's sum.

Shapes: B batch, T positions, D embedding_size.
"""

from functools import partial

import pytest
import torch

from headroom_attention.trained import heads_by_layer
from models.attention.decoupled import DecoupledAttention
from models.attention.multi_head import MultiHeadAttention
from models.attention_map import attention_weights
from models.head_sizes import UnevenAttention, distinct_sizes
from models.transformer import Decoder, Encoder
from tasks.config.architecture import variant
from tests.models.conftest import (
    DECODER,
    ENCODER,
    causal_mask,
    every_variant,
    sum_over_heads,
)

B, T, D = 2, 11, 7
SIZES = [5, 2, 13, 2]


@pytest.mark.parametrize(("model", "sizes"), [(Decoder, DECODER), (Encoder, ENCODER)])
def test_a_list_of_one_size_is_the_plain_model_to_the_bit(model, sizes):
    states = []
    for head_size in (5, [5, 5]):
        torch.manual_seed(3)
        states.append(model(**{**sizes, "head_size": head_size}).state_dict())
    torch.testing.assert_close(*states, rtol=0, atol=0)


def test_weights_of_heads_stand_in_the_order_of_their_sizes():
    layer, x_BTD = UnevenAttention(MultiHeadAttention, D, SIZES), torch.randn(B, T, D)
    parts = attention_weights(lambda: layer(x_BTD))
    [found_BHTT] = heads_by_layer(parts, 1, len(SIZES), [SIZES])
    smallest, middle, largest = parts  # two heads of size 2, one of 5 and one of 13
    expected = (middle[:, 0], smallest[:, 0], largest[:, 0], smallest[:, 1])
    assert torch.equal(found_BHTT, torch.stack(expected, 1))


def test_heads_of_several_sizes_are_the_papers_sum_over_heads():
    layer = UnevenAttention(MultiHeadAttention, D, SIZES).double()
    x_TD = torch.randn(T, D, dtype=torch.float64)
    expected_TD, seen = torch.zeros_like(x_TD), []
    for group in layer.groups:
        heads, head_size = group.heads, group.head_size
        weights = (
            w.unflatten(0, (heads, head_size)) for w in group.qkv.weight.chunk(3)
        )
        outputs = group.output.weight.split(head_size, dim=1)
        expected_TD += sum_over_heads(x_TD, *weights, outputs)
        seen += [head_size] * heads
    assert sorted(seen) == sorted(SIZES)
    torch.testing.assert_close(layer(x_TD[None])[0], expected_TD, rtol=0, atol=1e-12)


@every_variant
def test_heads_of_several_sizes_have_the_weights_of_each_size_unless_heads_share(name):
    def weights(heads):
        return sum(w.numel() for w in variant(name)(D, heads, 5).parameters())

    added = weights(5) == weights(2) + weights(3)
    assert added != getattr(variant(name), "heads_share", False)


@pytest.mark.parametrize("name", ["decoupled", "multi_head"])
def test_a_variant_can_have_heads_of_several_sizes(name):
    layer = UnevenAttention(variant(name), D, SIZES)
    x_BTD = torch.randn(B, T, D, requires_grad=True)
    output_BTD = layer(x_BTD, causal_mask(B, T))
    assert output_BTD.shape == (B, T, D)
    (gradient_BTD,) = torch.autograd.grad(output_BTD[:, 3].sum(), x_BTD)
    assert (gradient_BTD[:, 4:] == 0).all()
    assert (gradient_BTD[:, :4] != 0).all()


@pytest.mark.parametrize("head_size", [[5], [5, 5, 5], [[5, 5], [5, 5, 5]]])
def test_a_list_of_the_wrong_length_is_refused(head_size, decoder):
    with pytest.raises(ValueError, match=r"head_size has . entries; give one"):
        decoder(head_size=head_size)


def test_the_sizes_are_those_of_all_heads():
    assert distinct_sizes([5, [3, 7], 2]) == [2, 3, 5, 7]


def test_heads_of_any_size_are_drawn_as_in_a_layer_of_all_of_them():
    layer = UnevenAttention(MultiHeadAttention, 32, [4, 8, 16, 36])
    bound = (6 / (32 + 64)) ** 0.5  # Glorot's bound for a matrix of 32 x 64
    for group in layer.groups:
        for weight in (group.qkv.weight, group.output.weight):
            assert weight.abs().max().item() == pytest.approx(bound, rel=0.05)
            assert weight.abs().max().item() <= bound


def test_decoupled_heads_of_any_size_are_drawn_as_in_a_layer_of_all_of_them():
    layer = UnevenAttention(partial(DecoupledAttention, value_size=12), 32, [4, 8, 36])
    for group in layer.groups:
        for weight, width in (
            (group.query_key.weight, 48),
            (group.value.weight, 36),
            (group.output.weight, 36),
        ):
            bound = (6 / (32 + width)) ** 0.5  # Glorot's
            assert weight.abs().max().item() == pytest.approx(bound, rel=0.05)


def test_queries_and_keys_drawn_by_head_do_not_depend_on_the_other_heads():
    layer = UnevenAttention(partial(MultiHeadAttention, glorot="head"), 32, [8, 8, 56])
    for group in layer.groups:
        queries, keys, values = group.qkv.weight.chunk(3)
        for weight, width in (
            (queries, group.head_size),
            (keys, group.head_size),
            (values, 72),
        ):
            bound = (6 / (32 + width)) ** 0.5
            assert weight.abs().max().item() == pytest.approx(bound, rel=0.05)
