"""Theorem 1 as printed, its counterexamples, and the smallest head sizes for contexts."""

import pytest
import torch

from models.attention.multi_head import MultiHeadAttention
from models.context_heads import ContextHeads
from tests.models.conftest import assert_same, causal_or_not, normal
from tests.models.theorem_1 import (
    context,
    impossible_example,
    represent,
    smallest_head_size,
    theorem_1,
)

EXACT = 1e-9
lengths = pytest.mark.parametrize("length", [2, 3, 5, 7, 11, 13])


def _context(length, *, causal=False, logits_NN=None):
    logits_NN = normal(length, length) if logits_NN is None else logits_NN
    if causal:
        logits_NN = logits_NN.masked_fill(
            torch.ones(length, length).tril(-1).bool(), -torch.inf
        )
    return logits_NN.softmax(0)


@pytest.mark.parametrize(
    ("size", "length"), [(2, 2), (7, 5), (11, 11), (23, 13), (101, 3)]
)
@pytest.mark.parametrize("diagonal", ["ones", "random"])
def test_theorem_1_forms_any_context_from_any_input(size, length, diagonal):
    x_DN, wanted_NN = normal(size, length), _context(length)
    d_0 = torch.ones(length) if diagonal == "ones" else normal(length).exp()
    w_q_DD, w_k_DD = theorem_1(x_DN, wanted_NN, d_0)
    assert w_q_DD.shape == w_k_DD.shape == (size, size)
    assert_same(context(w_q_DD, w_k_DD, x_DN), wanted_NN, EXACT)


def test_theorem_1_holds_in_the_layer_that_is_trained():
    size, length = 13, 7
    x_DN, wanted_NN = normal(size, length), _context(length)
    w_q_PD, w_k_PD = represent(x_DN, wanted_NN, length)
    attention = MultiHeadAttention(size, 1, length).double()
    with torch.no_grad():
        # With these values and this output, the layer returns the context, as W_v X is the
        # identity.
        attention.qkv.weight.copy_(torch.cat((w_q_PD, w_k_PD, torch.linalg.pinv(x_DN))))
        attention.output.weight.copy_(torch.eye(size, length))
    shown_TD = attention(x_DN.T[None])[0]
    assert_same(shown_TD[:, :length].T, wanted_NN, EXACT)


@pytest.mark.parametrize(("size", "length"), [(1, 2), (2, 3), (5, 7), (11, 13), (7, 5)])
def test_the_papers_impossible_example_is_out_of_reach_of_any_projections(size, length):
    x_DN, wanted_NN = impossible_example(size, length)
    assert_same(wanted_NN.sum(0), torch.ones(length).double(), EXACT)
    for head_size in (1, size, size + length):
        for _ in range(7):
            w_q_PD, w_k_PD = 3 * normal(2, head_size, size)
            formed_N = context(w_q_PD, w_k_PD, x_DN)[:, -1]
            assert_same(formed_N, torch.full_like(formed_N, 1 / length), EXACT)
    assert (wanted_NN[:, -1] - 1 / length).abs().max() >= 0.25
    if length == 2:  # the example that the paper prints
        assert x_DN.tolist() == [[1, 0]]
        assert wanted_NN.tolist() == [[0.5, 0.75], [0.5, 0.25]]


@causal_or_not
@lengths
def test_the_smallest_head_forms_a_generic_context(length, causal):
    x_DN, wanted_NN = normal(length + 2, length), _context(length, causal=causal)
    smallest = smallest_head_size(wanted_NN, causal=causal)
    assert smallest == (length // 2 if causal else length - 1)
    for head_size in (smallest, smallest + 1, 2 * length):
        weights = represent(x_DN, wanted_NN, head_size, causal=causal)
        assert weights[0].shape == weights[1].shape == (head_size, length + 2)
        assert_same(context(*weights, x_DN, causal=causal), wanted_NN, EXACT)


@causal_or_not
@pytest.mark.parametrize("head_size", [1, 2, 3])
def test_a_context_that_a_head_formed_takes_a_head_of_that_size(head_size, causal):
    size, length = 17, 11
    x_DN = normal(size, length)
    formed_NN = context(*normal(2, head_size, size) / 5, x_DN, causal=causal)
    assert smallest_head_size(formed_NN, causal=causal) == head_size
    weights = represent(x_DN, formed_NN, head_size, causal=causal)
    assert_same(context(*weights, x_DN, causal=causal), formed_NN, EXACT)


@causal_or_not
@lengths
def test_looking_at_oneself_takes_the_largest_head_and_at_all_alike_none(
    length, causal
):
    eye_NN = torch.eye(length, dtype=torch.float64)
    oneself_NN, alike_NN = (
        _context(length, causal=causal, logits_NN=x * eye_NN) for x in (1, 0)
    )
    assert smallest_head_size(oneself_NN, causal=causal) == length - 1
    assert smallest_head_size(alike_NN, causal=causal) == 0


@causal_or_not
def test_heads_of_many_problems_form_what_each_forms_alone(causal):
    problems, size, length, head_size = 3, 13, 7, 5
    heads = ContextHeads(problems, size, head_size).double()
    x_KDN = normal(problems, size, length)
    contexts_KNN = heads(x_KDN, causal=causal).exp()
    for x_DN, query_PD, key_PD, formed_NN in zip(
        x_KDN, heads.query, heads.key, contexts_KNN, strict=True
    ):
        alone_NN = context(query_PD, key_PD, x_DN, causal=causal)
        assert_same(formed_NN, alone_NN, EXACT)
