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
from models.head_sizes import UnevenAttention
from models.transformer import Decoder, Encoder
from tasks.config.architecture import variant
from tests.models.conftest import (
    DECODER,
    ENCODER,
    assert_same,
    causal_mask,
    decoder,
    every_variant,
    normal,
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
    assert_same(*states, 0)


def test_weights_of_heads_stand_in_the_order_of_their_sizes():
    layer, x_BTD = UnevenAttention(MultiHeadAttention, D, SIZES), torch.randn(B, T, D)
    parts = attention_weights(lambda: layer(x_BTD))
    [found_BHTT] = heads_by_layer(parts, 1, len(SIZES), [SIZES])
    smallest, middle, largest = parts  # two heads of size 2, one of 5 and one of 13
    expected = (middle[:, 0], smallest[:, 0], largest[:, 0], smallest[:, 1])
    assert torch.equal(found_BHTT, torch.stack(expected, 1))


def test_heads_of_several_sizes_are_the_papers_sum_over_heads():
    layer = UnevenAttention(MultiHeadAttention, D, SIZES).double()
    x_TD = normal(T, D)
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
    assert_same(layer(x_TD[None])[0], expected_TD)


@every_variant
def test_heads_of_several_sizes_have_the_weights_of_each_size_unless_heads_share(name):
    def weights(heads):
        return sum(w.numel() for w in variant(name)(D, heads, 5).parameters())

    added = weights(5) == weights(2) + weights(3)
    assert added != getattr(variant(name), "heads_share", False)


@pytest.mark.parametrize("name", ["decoupled", "multi_head"])
def test_heads_of_several_sizes_see_no_later_position(name):
    layer = UnevenAttention(variant(name), D, SIZES)
    x_BTD = torch.randn(B, T, D, requires_grad=True)
    output_BTD = layer(x_BTD, causal_mask(B, T))
    (gradient_BTD,) = torch.autograd.grad(output_BTD[:, 3].sum(), x_BTD)
    assert (gradient_BTD[:, 4:] == 0).all()
    assert (gradient_BTD[:, :4] != 0).all()


@pytest.mark.parametrize("head_size", [[5], [5, 5, 5], [[5, 5], [5, 5, 5]]])
def test_a_list_of_the_wrong_length_is_refused(head_size):
    with pytest.raises(ValueError, match=r"head_size has . entries; give one"):
        decoder(head_size=head_size)


@pytest.mark.parametrize(
    ("attention", "sizes", "widths"),
    [
        (MultiHeadAttention, [4, 8, 16, 36], [64] * 4),
        (partial(DecoupledAttention, value_size=12), [4, 8, 36], [48, 36, 36]),
        # Queries and keys have the width of their own head.
        (partial(MultiHeadAttention, glorot="head"), [8, 8, 56], [None, None, 72, 72]),
    ],
)
def test_heads_of_any_size_are_drawn_as_in_a_layer_of_all_of_them(
    attention, sizes, widths
):
    for group in UnevenAttention(attention, 32, sizes).groups:
        if isinstance(group, MultiHeadAttention):
            weights = [*group.qkv.weight.chunk(3), group.output.weight]
        else:
            weights = [w.weight for w in (group.query_key, group.value, group.output)]
        for weight, width in zip(weights, widths, strict=True):
            bound = (6 / (32 + (width or group.head_size))) ** 0.5  # Glorot's
            assert weight.abs().max().item() == pytest.approx(bound, rel=0.05)
