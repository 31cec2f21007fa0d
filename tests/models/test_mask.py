"""Attention by segments equals attention with the whole mask, and takes fewer operations."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from models import mask
from models.mask import SegmentMask, attention_mask
from models.measure import forward_flops
from tasks.config.architecture import variant
from tests.models.conftest import (
    assert_same,
    biases,
    causal_or_not,
    every_variant,
    normal,
    pack,
)

B, T, D, H, P = 3, 40, 12, 3, 5
# The lengths of the segments in each row; the rest of a row is padding.
LENGTHS = [
    (1, 9, 8, 3, 16),
    (17, 2, 5, 8),
    (8, 8, 8, 7, 9),
]


def _segments():
    return torch.cat([pack(*row, padding=T - sum(row))[1] for row in LENGTHS])


def _mask(*, causal=True):
    return attention_mask(_segments(), causal=causal)


def _plain(mask_B1TT):
    return mask_B1TT.as_subclass(Tensor)


def _both(mask_B1TT, *qkv, **options):
    """Return attention with a mask, and attention with the equal plain mask."""
    return [
        F.scaled_dot_product_attention(*qkv, attn_mask=one, **options)
        for one in (mask_B1TT, _plain(mask_B1TT))
    ]


@causal_or_not
@every_variant
@biases
def test_every_variant_computes_what_it_does_under_the_plain_mask(name, causal, bias):
    attention = variant(name)(D, H, P, bias=bias).double()
    x_BTD = normal(B, T, D).requires_grad_()
    wanted = [x_BTD, *attention.parameters()]
    mask_B1TT = _mask(causal=causal)
    assert isinstance(mask_B1TT, SegmentMask)
    actual, expected = (attention(x_BTD, one) for one in (mask_B1TT, _plain(mask_B1TT)))
    assert_same(actual, expected, 1e-13)
    assert_same(
        torch.autograd.grad(actual.square().sum(), wanted),
        torch.autograd.grad(expected.square().sum(), wanted),
        1e-11,
    )


@causal_or_not
@pytest.mark.parametrize("seed", range(6))
def test_segments_of_any_lengths(causal, seed, monkeypatch):
    monkeypatch.setattr(mask.SegmentLayout, "saves", True)
    torch.manual_seed(seed)
    # Most segments are short, and some fill a row. Different rows have the same segment numbers.
    starts_BT = torch.rand(B, T) < torch.rand(B, 1) ** 3
    mask_B1TT = attention_mask(starts_BT.cumsum(1), causal=causal)
    assert_same(*_both(mask_B1TT, *normal(3, B, H, T, P)), 1e-13)


@causal_or_not
def test_queries_that_share_keys_and_values(causal):
    mask_B1TT = _mask(causal=causal)
    q, (k, v) = normal(B, 4, T, P), normal(2, B, 2, T, P)
    both = _both(mask_B1TT, query=q, key=k, value=v, enable_gqa=True)
    assert_same(*both, 1e-13)


@pytest.mark.parametrize("rows", [1, B])
def test_other_positions_than_those_laid_out_are_under_the_plain_mask(rows):
    mask_B1TT = _mask()[:, :, : T // 2]
    mask_B1TT = SegmentMask.over(
        mask_B1TT, mask.SegmentLayout.of(_segments()), causal=True
    )
    q, (k, v) = torch.randn(B, H, T // 2, P), torch.randn(2, rows, H, T, P)
    torch.testing.assert_close(*_both(mask_B1TT, q, k, v))


@causal_or_not
def test_it_multiplies_a_fraction_of_what_the_plain_mask_does(causal):
    mask_B1TT = _mask(causal=causal)
    q, k, v = torch.randn(3, B, H, T, P)
    by_segment, whole = (
        forward_flops(
            lambda one=one: F.scaled_dot_product_attention(q, k, v, attn_mask=one)
        )
        for one in (mask_B1TT, _plain(mask_B1TT))
    )
    slots = [
        -(-n // mask.STEP) * mask.STEP
        for row in LENGTHS
        for n in (*row, T - sum(row))
        if n
    ]
    assert by_segment * B * T**2 == whole * sum(n**2 for n in slots)


@causal_or_not
def test_of_rows_of_one_segment_and_of_unknown_segments_the_mask_is_plain(causal):
    for segments_BT in (torch.ones(B, T, dtype=torch.long), _segments().to("meta")):
        assert type(attention_mask(segments_BT, causal=causal)) is Tensor


def test_to_all_else_it_is_the_plain_mask():
    mask_B1TT = _mask()
    masked = torch.where(mask_B1TT, 0.0, -torch.inf)
    assert type(masked) is Tensor
    assert masked.equal(torch.where(_plain(mask_B1TT), 0.0, -torch.inf))


def test_dropout_drops():
    mask_B1TT = _mask()
    q, k = torch.randn(2, B, H, T, P)
    weights = F.scaled_dot_product_attention(
        q, k, torch.ones_like(q), attn_mask=mask_B1TT, dropout_p=0.5
    )
    assert 0.9 < weights.mean() < 1.1
    assert (weights == 0).any()
