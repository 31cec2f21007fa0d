"""The chunked cross-entropy and its gradients equal those of PyTorch on all logits at once."""

import pytest
import torch
import torch.nn.functional as F

from models import cross_entropy
from models.cross_entropy import IGNORED, linear_cross_entropy

ROWS, WORDS = 13, 9  # rows of a chunk, tokens of a block
# These sizes give at least three chunks and blocks, and the last ones are shorter.
N, D, V = 2 * ROWS + 5, 7, 31
PARTS = {
    "chunks": (ROWS, V),
    "blocks": (N, WORDS),
    "both": (ROWS, WORDS),
    "whole": (N, V),
}


@pytest.fixture(autouse=True, params=PARTS.values(), ids=PARTS)
def parts(request, monkeypatch):
    """Set the number of rows of a chunk and of tokens of a block."""
    monkeypatch.setattr(cross_entropy, "_LOGITS_CPU", 0)
    monkeypatch.setattr(cross_entropy, "_ROWS_CPU", request.param[0])
    monkeypatch.setattr(cross_entropy, "_BLOCK_CPU", request.param[1])


def _problem(dtype=torch.float64):
    hidden_ND = torch.randn(N, D, dtype=dtype, requires_grad=True)
    weight_VD = torch.randn(V, D, dtype=dtype, requires_grad=True)
    bias_V = torch.randn(V, dtype=dtype, requires_grad=True)
    targets_N = torch.randint(V, (N,))
    targets_N[::3] = IGNORED
    return hidden_ND, weight_VD, targets_N, bias_V


@pytest.mark.parametrize("with_bias", [True, False])
def test_equals_all_logits_at_once(with_bias):
    hidden_ND, weight_VD, targets_N, bias_V = _problem()
    bias = bias_V if with_bias else None
    inputs = [hidden_ND, weight_VD, *[bias_V] * with_bias]
    expected = F.cross_entropy(
        F.linear(hidden_ND, weight_VD, bias),
        targets_N,
        ignore_index=IGNORED,
        reduction="sum",
    )
    actual = linear_cross_entropy(hidden_ND, weight_VD, targets_N, bias)
    torch.testing.assert_close(actual, expected)
    with torch.no_grad():
        without_gradients = linear_cross_entropy(hidden_ND, weight_VD, targets_N, bias)
    torch.testing.assert_close(without_gradients, expected)
    # In training, a loss is averaged and weighted. So test an incoming gradient other than 1.
    torch.testing.assert_close(
        torch.autograd.grad(actual * 0.3 / N, inputs),
        torch.autograd.grad(expected * 0.3 / N, inputs),
    )


def test_a_target_whose_probability_is_too_small_for_a_number_costs_what_its_logit_says():
    hidden_ND = torch.full((N, 1), 1000.0, requires_grad=True)
    weight_VD = torch.zeros(V, 1, requires_grad=True)
    with torch.no_grad():
        weight_VD[3] = 1.0
    nats = linear_cross_entropy(hidden_ND, weight_VD, torch.full((N,), 4))
    assert nats.item() == 1000.0 * N
    (gradient_VD,) = torch.autograd.grad(nats, weight_VD)
    expected_V = torch.zeros(V)
    expected_V[3], expected_V[4] = 1000.0 * N, -1000.0 * N
    assert gradient_VD.squeeze(1).equal(expected_V)


def test_nothing_to_predict_costs_nothing():
    hidden_ND, weight_VD, targets_N, bias_V = _problem()
    for rows in (slice(0, 0), slice(0, N, 3)):
        nats = linear_cross_entropy(hidden_ND[rows], weight_VD, targets_N[rows], bias_V)
        gradients = torch.autograd.grad(nats, [hidden_ND, weight_VD, bias_V])
        assert nats == 0
        assert all((gradient == 0).all() for gradient in gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("as_on", ["cpu", "cuda"])
def test_under_autocast_the_score_and_the_sum_over_chunks_stay_in_single_precision(
    as_on, dtype, monkeypatch
):
    if as_on == "cuda":  # a GPU stores probabilities in the precision of the logits
        monkeypatch.setattr(
            cross_entropy, "_softmax_dtype", lambda logits: logits.dtype
        )
    hidden_ND, weight_VD, targets_N, bias_V = _problem(torch.float32)
    inputs = [hidden_ND, weight_VD, bias_V]
    exact = linear_cross_entropy(hidden_ND, weight_VD, targets_N, bias_V)
    expected = torch.autograd.grad(exact, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        nats = linear_cross_entropy(hidden_ND.to(dtype), weight_VD, targets_N, bias_V)
    actual = torch.autograd.grad(nats, inputs)
    assert nats.dtype == torch.float32
    assert nats.item() == pytest.approx(exact.item(), rel=1e-3)
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 0.02 * theirs.norm()
