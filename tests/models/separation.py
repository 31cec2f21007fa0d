"""Why heads of a fixed size say strictly more than heads of size d/h (Theorem 2).

For any standard multi-head layer f and any fixed-head-size layer g of the theorem's kind there is
an input on which they differ; `witness` finds it, in the three cases of the proof.
"""

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.models.theorem_1 import context

_TOLERANCE = 1e-9  # relative; closer than this two matrices count as equal


@dataclass(frozen=True)
class Heads:
    """A layer without residual and LayerNorm: sum over heads of W_o^i W_v^i X P^i (eq. 8 and 9)."""

    query_HPD: Tensor
    key_HPD: Tensor
    value_HPD: Tensor
    output_HDP: Tensor

    def __call__(self, x_DN):
        """Return the layer's output_DN."""
        moved = self.moves_HDD() @ x_DN
        contexts = [context(*pair, x_DN) for pair in zip(self.query_HPD, self.key_HPD, strict=True)]
        return (moved @ torch.stack(contexts)).sum(0)

    def moves_HDD(self):
        """Return W_o^i W_v^i, what a head makes of a position it attends to."""
        return self.output_HDP @ self.value_HPD

    def forms_HDD(self):
        """Return W_k^iT W_q^i / sqrt(P): the logit of key x for query y is x^T (form) y."""
        return self.key_HPD.mT @ self.query_HPD / math.sqrt(self.query_HPD.shape[1])

    def widened(self, head_size):
        """Return the same function with larger heads, as section 3.1 notes that there is one."""
        heads, size, embedding_size = self.query_HPD.shape
        if head_size < size:
            raise ValueError(f"heads of size {size} do not fit into heads of size {head_size}")
        zeros = self.query_HPD.new_zeros(heads, head_size - size, embedding_size)
        query_HPD = self.query_HPD * math.sqrt(head_size / size)
        query, key, value = (
            torch.cat((weight, zeros), dim=1)
            for weight in (query_HPD, self.key_HPD, self.value_HPD)
        )
        return Heads(query, key, value, torch.cat((self.output_HDP, zeros.mT), dim=2))


@dataclass(frozen=True)
class Witness:
    """An input_DN on which the two layers differ, and the case of the proof that it is from."""

    case: int
    input_DN: Tensor


def witness(standard, fixed, length):
    """Return where the layers differ; length n is at least 2.

    1. The heads' W_o W_v add up to different matrices: X = v 1^T, on which no context matters.
    2. They add up to the same, but in some head v^T W_k^T W_q v differs: X = v e_1^T.
    3. In all heads it is the same for every v: X = [v1, v2, 0 ... 0].

    Layers that are not as Theorem 2 asks are a ValueError.
    """
    _check(standard, fixed, length)
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
    """Return the input with these first columns, moved a little and scaled, of largest difference.

    The columns make the contexts of `head` differ. The outputs could still agree if what differs
    were in the null space of W_v; some step along a direction that W_v keeps leaves it.
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


def _check(standard, fixed, length):
    heads, size, embedding_size = standard.query_HPD.shape
    fixed_size = fixed.query_HPD.shape[1]
    forms_HDD = fixed.forms_HDD()
    if heads * size != embedding_size or len(fixed.query_HPD) != heads:
        raise ValueError("the standard layer has h heads of size d/h, and the fixed one h heads")
    if not (length >= 2 and embedding_size >= fixed_size and heads * fixed_size > embedding_size):
        raise ValueError("Theorem 2 asks for n >= 2, d >= d_p and h > d/d_p")
    if (forms_HDD - forms_HDD[0]).norm() > _TOLERANCE * forms_HDD.norm():
        raise ValueError("the fixed layer's V_k^T V_q must be the same in all heads")
    if torch.linalg.matrix_rank(forms_HDD[0], rtol=_TOLERANCE) < fixed_size:
        raise ValueError("the fixed layer's V_k^T V_q must be of rank d_p")
    if torch.linalg.matrix_rank(fixed.moves_HDD().sum(0), rtol=_TOLERANCE) < embedding_size:
        raise ValueError("the fixed layer's V_o V_v must be of full rank")
