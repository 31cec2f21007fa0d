"""Theorem 2: for a layer with larger heads, every standard layer differs from it on some input."""

import itertools
import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from models.attention.multi_head import MultiHeadAttention
from tests.models.theorem_1 import context

_TOLERANCE = 1e-9  # matrices count as equal if their relative difference is smaller


@dataclass(frozen=True)
class Heads:
    """A layer without residual and LayerNorm (eq. 8 and 9).

    It computes the sum over heads of W_o^i W_v^i X P^i, where P^i is the context of head i.
    """

    query_HPD: Tensor
    key_HPD: Tensor
    value_HPD: Tensor
    output_HDP: Tensor

    def __call__(self, x_DN):
        """Return the layer's output_DN."""
        contexts_HNN = context(self.query_HPD, self.key_HPD, x_DN)
        return (self.moves_HDD() @ x_DN @ contexts_HNN).sum(0)

    def moves_HDD(self):
        """Return W_o^i W_v^i of each head, which maps an attended position to the output."""
        return self.output_HDP @ self.value_HPD

    def forms_HDD(self):
        """Return the form W_k^T W_q / sqrt(P) of each head. The logit of key x is x^T form y."""
        return self.key_HPD.mT @ self.query_HPD / math.sqrt(self.query_HPD.shape[1])

    def widened(self, head_size):
        """Return a layer with larger heads that computes the same function (section 3.1)."""
        heads, size, embedding_size = self.query_HPD.shape
        zeros = self.query_HPD.new_zeros(heads, head_size - size, embedding_size)
        query_HPD = self.query_HPD * math.sqrt(head_size / size)
        query, key, value = (
            torch.cat((weight, zeros), dim=1)
            for weight in (query_HPD, self.key_HPD, self.value_HPD)
        )
        return Heads(query, key, value, torch.cat((self.output_HDP, zeros.mT), dim=2))


@dataclass(frozen=True)
class Witness:
    """An input_DN on which two layers differ, and the case of the proof that constructs it."""

    case: int
    input_DN: Tensor


def witness(standard, fixed, length):
    """Return an input of at least 2 positions on which the layers differ, by cases.

    1. The sums of W_o W_v over heads differ. Then X = v 1^T, for which all contexts are equal.
    2. These sums are equal, but in some head v^T W_k^T W_q v differs. Then X = v e_1^T.
    3. In every head these quadratic forms are equal for every v. Then X = [v1, v2, 0 ... 0].
    """
    sums_DD = fixed.moves_HDD().sum(0), standard.moves_HDD().sum(0)
    gap_DD = sums_DD[0] - sums_DD[1]
    if gap_DD.norm() > _TOLERANCE * sums_DD[0].norm():
        v_D = torch.linalg.svd(gap_DD).Vh[0]
        return Witness(1, v_D.unsqueeze(1).expand(-1, length))
    gaps_HDD = fixed.forms_HDD() - standard.forms_HDD()
    symmetric_HDD = (gaps_HDD + gaps_HDD.mT) / 2
    if symmetric_HDD.norm() > _TOLERANCE * gaps_HDD.norm():
        head = int(symmetric_HDD.flatten(1).norm(dim=1).argmax())
        values, vectors = torch.linalg.eigh(symmetric_HDD[head])
        columns = [vectors[:, values.abs().argmax()]]
        return _farthest(2, columns, standard, fixed, head, length)
    head = int(gaps_HDD.flatten(1).norm(dim=1).argmax())
    left_DD, _, right_DD = torch.linalg.svd(gaps_HDD[head])
    return _farthest(3, [right_DD[0], left_DD[:, 0]], standard, fixed, head, length)


def _farthest(case, columns, standard, fixed, head, length):
    """Return an input with a large difference between the layers. It begins with these columns.

    The columns make the contexts of `head` differ. The outputs may still be equal, if the
    difference is in the null space of W_v. So add several multiples of a direction outside this
    null space to the first column, scale the others, and take the best of these inputs.
    """
    kept_D = torch.linalg.svd(standard.value_HPD[head]).Vh[0]
    zeros = [torch.zeros_like(kept_D)] * (length - len(columns))
    inputs = [
        torch.stack([first + step * kept_D, *(scale * c for c in rest), *zeros], dim=1)
        for (first, *rest), step, scale in itertools.product(
            [columns, columns[::-1]], (0.0, 1.0, -1.0, 0.5, -0.5), (1.0, 2.0, 4.0)
        )
    ]
    differences = [(fixed(x_DN) - standard(x_DN)).norm().item() for x_DN in inputs]
    return Witness(case, inputs[differences.index(max(differences))])


# Each row has d, h, d_p and n, where d_p > d/h.
SIZES = [
    (3, 3, 2, 2),
    (5, 5, 3, 7),
    (7, 7, 5, 3),
    (6, 3, 5, 11),
    (10, 2, 7, 5),
    (13, 13, 13, 2),
]
sizes = pytest.mark.parametrize(("size", "heads", "head_size", "length"), SIZES)


def _random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def _fixed(size, heads, head_size, form_DD=None):
    """Return the theorem's layer, in which all heads have the same form of rank d_p."""
    form_DD = (
        _random(size, head_size) @ _random(head_size, size)
        if form_DD is None
        else form_DD
    )
    left, values, right = torch.linalg.svd(form_DD * head_size**0.5)
    roots = values[:head_size].sqrt().unsqueeze(1)
    key_PD, query_PD = roots * left.T[:head_size], roots * right[:head_size]
    return Heads(
        query_PD.expand(heads, -1, -1),
        key_PD.expand(heads, -1, -1),
        _random(heads, head_size, size),
        _random(heads, size, head_size),
    )


def _layer(size, heads, head_size):
    projections = (_random(heads, head_size, size) for _ in range(3))
    return Heads(*projections, _random(heads, size, head_size))


def _with_the_sum_of(fixed, standard):
    """Change W_o of `standard`, so that both layers have equal sums of W_o W_v over heads."""
    heads, head_size, size = standard.value_HPD.shape
    output_DD = fixed.moves_HDD().sum(0) @ standard.value_HPD.flatten(0, 1).inverse()
    return replace(
        standard, output_HDP=output_DD.view(size, heads, head_size).transpose(0, 1)
    )


def _with_the_quadratic_forms_of_a_standard_layer(size, heads, head_size):
    """Return a fixed and a standard layer whose forms differ by a skew-symmetric matrix."""
    small = size // heads
    key_PD, query_PD = _random(small, size), _random(small, size)
    spread_DE = _random(size, head_size - small)
    skew_EE = _random(head_size - small, head_size - small)
    skew_DD = spread_DE @ (skew_EE - skew_EE.T) @ spread_DE.T
    form_DD = key_PD.T @ query_PD / small**0.5 + skew_DD
    fixed = _fixed(size, heads, head_size, form_DD)
    same = (weight.expand(heads, -1, -1) for weight in (query_PD, key_PD))
    standard = Heads(*same, _random(heads, small, size), _random(heads, size, small))
    return fixed, _with_the_sum_of(fixed, standard)


def _assert_differ(fixed, standard, x_DN):
    expected = fixed(x_DN)
    assert (expected - standard(x_DN)).norm() > 1e-3 * expected.norm()


@sizes
def test_case_1_different_sums(size, heads, head_size, length):
    fixed, standard = _fixed(size, heads, head_size), _layer(size, heads, size // heads)
    found = witness(standard, fixed, length)
    assert found.case == 1
    x_DN = found.input_DN
    assert x_DN.shape == (size, length)
    assert torch.equal(x_DN, x_DN[:, :1].expand(-1, length))
    _assert_differ(fixed, standard, x_DN)
    # If all positions are equal, the context does not affect the output.
    for layer in (fixed, standard):
        torch.testing.assert_close(
            layer(x_DN), layer.moves_HDD().sum(0) @ x_DN, atol=1e-9, rtol=0
        )


@sizes
def test_case_2_equal_sums(size, heads, head_size, length):
    fixed = _fixed(size, heads, head_size)
    standard = _with_the_sum_of(fixed, _layer(size, heads, size // heads))
    found = witness(standard, fixed, length)
    assert found.case == 2
    v_D = found.input_DN[:, 0]
    assert (found.input_DN[:, 1:] == 0).all()
    _assert_differ(fixed, standard, found.input_DN)

    def first_column(layer):
        """Compute the first output column by hand.

        A head attends to v with the weight e^a / (e^a + n - 1), where a = v^T form v.
        """
        weights_H = torch.sigmoid(v_D @ layer.forms_HDD() @ v_D - math.log(length - 1))
        return (weights_H.unsqueeze(1) * (layer.moves_HDD() @ v_D)).sum(0)

    for layer in (fixed, standard):
        torch.testing.assert_close(
            layer(found.input_DN)[:, 0], first_column(layer), atol=1e-9, rtol=1e-9
        )


# The rank of the forms' difference is d_p - d/h. It must be even for a skew-symmetric matrix.
SKEW = [
    (3, 3, 3, 2),
    (5, 5, 3, 7),
    (7, 7, 5, 3),
    (6, 3, 4, 11),
    (10, 2, 7, 5),
    (13, 13, 13, 2),
]


@pytest.mark.parametrize(("size", "heads", "head_size", "length"), SKEW)
def test_case_3_equal_sums_and_quadratic_forms(size, heads, head_size, length):
    fixed, standard = _with_the_quadratic_forms_of_a_standard_layer(
        size, heads, head_size
    )
    found = witness(standard, fixed, length)
    assert found.case == 3
    assert (found.input_DN[:, 2:] == 0).all()
    _assert_differ(fixed, standard, found.input_DN)
    for x_DN in (
        _random(size, 1).expand(-1, length),
        _random(size, 1) * torch.eye(length)[:1],
    ):
        torch.testing.assert_close(fixed(x_DN), standard(x_DN), atol=1e-8, rtol=1e-8)


def test_these_layers_are_those_that_are_trained():
    size, heads, head_size, length = 7, 3, 5, 11
    layer = _layer(size, heads, head_size)
    attention = MultiHeadAttention(size, heads, head_size).double()
    with torch.no_grad():
        stacked = [
            w.flatten(0, 1) for w in (layer.query_HPD, layer.key_HPD, layer.value_HPD)
        ]
        attention.qkv.weight.copy_(torch.cat(stacked))
        attention.output.weight.copy_(layer.output_HDP.transpose(0, 1).flatten(1))
    x_DN = _random(size, length)
    torch.testing.assert_close(
        attention(x_DN.T[None])[0].T, layer(x_DN), atol=1e-9, rtol=0
    )
