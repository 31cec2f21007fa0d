"""Every attention variant behaves as a block expects."""

import torch

from models.attention import _heads
from tasks.config.architecture import variant
from tests.models.conftest import biases, causal_mask, every_variant, normal, randomise

B, T, D, H, P = 2, 7, 13, 3, 5
R = 16  # rotary size of latent heads


def _build(name, **options):
    return variant(name)(D, H, P, **options).double()


def _inputs():
    return normal(B, T, D).requires_grad_()


@every_variant
@biases
def test_takes_no_bias_unasked(name, bias):
    keys = _build(name, bias=bias).state_dict()
    assert any(key.endswith("bias") for key in keys) == bias


@every_variant
def test_dropout_is_for_training_only(name):
    attention, x_BTD = _build(name, dropout=0.5), _inputs()
    assert not torch.equal(attention(x_BTD), attention(x_BTD))
    attention.eval()
    assert torch.equal(attention(x_BTD), attention(x_BTD))
    torch.manual_seed(1)
    without = _build(name)
    torch.manual_seed(1)
    assert torch.equal(_build(name, dropout=0.5).eval()(x_BTD), without(x_BTD))


def _seen(attention, attended):
    """Return the sizes of queries, keys and values, the output and the gradients."""
    attended.reset_mock()
    attention.zero_grad()
    torch.manual_seed(1)
    x_BTD, weights_BTD = _inputs(), normal(B, T, D)
    output_BTD = attention(x_BTD, causal_mask(B, T))
    (output_BTD * weights_BTD).sum().backward()
    [(qkv, _)] = attended.call_args_list
    gradients = {name: one.grad for name, one in attention.named_parameters()}
    return [one.shape[-1] for one in qkv], output_BTD, {**gradients, "x": x_BTD.grad}


@every_variant
@biases
def test_every_parameter_has_a_gradient_which_zeros_added_for_a_gpu_do_not_change(
    name, bias, attended, monkeypatch
):
    attention = _build(name, bias=bias)
    randomise(attention)
    axes, expected_BTD, expected = _seen(attention, attended)
    assert set(axes) <= {P, H * P, P + R}  # on a CPU there is no padding
    assert all((gradient != 0).any() for gradient in expected.values())
    monkeypatch.setattr(_heads, "MULTIPLES", {"cpu": 8})
    wider, output_BTD, gradients = _seen(attention, attended)
    assert wider == [-(-size // 8) * 8 for size in axes] != axes
    torch.testing.assert_close(output_BTD, expected_BTD)
    torch.testing.assert_close(gradients, expected)


@every_variant
@biases
def test_under_autocast_attention_is_in_half_precision(name, bias, attended):
    with torch.autocast("cpu", torch.bfloat16):
        _build(name, bias=bias).float()(_inputs().float(), causal_mask(B, T))
    [(qkv, _)] = attended.call_args_list
    assert [one.dtype for one in qkv] == [torch.bfloat16] * 3
