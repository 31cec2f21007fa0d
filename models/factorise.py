"""A CP decomposition of the query-key products of all heads (Cordonnier et al. 2020).

The query-key product of head i is W_Q^i W_K^iT, of shape (D, D).
Shapes: H heads, P head_size, D embedding_size, S shared_size, R = min(P, D), the largest rank that
a query-key product can have.
"""

from functools import partial

import torch
import torch.nn.functional as F
from numpy.linalg import LinAlgError
from torch import Tensor

# Alternating least squares stops after _ITERATIONS iterations, or when an iteration improves the
# fit by less than _TOLERANCE.
_ITERATIONS, _TOLERANCE = 300, 1e-8
# The weight of the penalty on squared factors, as a share of the sum of squared products.
_RIDGE = 1e-10


def factorise(
    query_HPD: Tensor, key_HPD: Tensor, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return factors query_DS, mixing_HS and key_DS of the query-key products of all heads.

    For each head i, query diag(mixing_i) key^T approximates the head's query-key product. If S is
    at least H * R, the factors reproduce all products exactly, and coordinates beyond H * R are
    zero. If S is smaller, alternating least squares fits the factors. It is deterministic, because
    it starts from the S largest singular directions of the heads. All computations are in double
    precision.

    Args:
        query_HPD, key_HPD: the transposed projections of each head, W_Q^iT and W_K^iT.
        size: S, the number of shared coordinates.

    Raises:
        ImportError: S is smaller than H * R, and tensorly is not installed.
    """
    query_DS, mixing_HS, key_DS = _directions(
        query_HPD.double(), key_HPD.double(), size
    )
    heads, head_size, embedding_size = query_HPD.shape
    if size < heads * min(head_size, embedding_size):
        products_DHD = torch.einsum(
            "hpd,hpe->dhe", query_HPD.double(), key_HPD.double()
        )
        query_DS, mixing_HS, key_DS = _fitted(
            products_DHD, [query_DS, mixing_HS, key_DS]
        )
    return _balanced(query_DS, mixing_HS, key_DS)


def _directions(
    query_HPD: Tensor, key_HPD: Tensor, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return initial factors from the S largest singular directions of the heads' products.

    Each of the S coordinates is a singular direction of one head. In the coordinate's column of
    mixing_HS, the entry of this head is 1, and the entries of all other heads are 0.
    """
    heads, head_size, embedding_size = query_HPD.shape
    rank = min(head_size, embedding_size)
    left, values, right = torch.linalg.svd(query_HPD.mT @ key_HPD, full_matrices=False)

    # Concatenate the singular directions of all heads. A is their number, H * R.
    query_DA = left[..., :rank].transpose(0, 1).flatten(1)
    key_DA = right[:, :rank].flatten(0, 1).T
    own_HA = torch.eye(heads).to(left).repeat_interleave(rank, dim=1)
    values_A = values[:, :rank].flatten()
    factors = (query_DA * values_A, own_HA, key_DA)

    kept = values_A.argsort(descending=True, stable=True)[:size]
    missing = max(0, size - len(values_A))
    query_DS, mixing_HS, key_DS = (
        F.pad(factor[:, kept], (0, missing)) for factor in factors
    )
    return query_DS, mixing_HS, key_DS


def _fitted(products_DHD: Tensor, start: list[Tensor]) -> list[Tensor]:
    """Fit factors to the products by alternating least squares. `start` has initial factors."""
    from tensorly.cp_tensor import CPTensor
    from tensorly.decomposition import parafac

    begun = CPTensor((None, [factor.numpy() for factor in start]))
    rank = start[0].shape[1]
    fit = partial(
        parafac, products_DHD.numpy(), rank, n_iter_max=_ITERATIONS, tol=_TOLERANCE
    )
    try:
        _, factors = fit(init=begun)
    except LinAlgError:
        # If some heads are equal or zero, different factors fit equally well, and the equations are
        # singular. A penalty on squared factors makes the solution unique.
        penalty = _RIDGE * max(1.0, products_DHD.square().sum().item())
        _, factors = fit(init=begun, l2_reg=penalty)
    return [torch.from_numpy(factor) for factor in factors]


def _balanced(
    query_DS: Tensor, mixing_HS: Tensor, key_DS: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Rescale the columns of the factors without changing the products that they approximate.

    In the result, each mixing column has norm 1, and each query column has the same norm as the key
    column of the same coordinate.
    """
    norms = [
        factor.norm(dim=0).clamp_min(1e-300) for factor in (query_DS, mixing_HS, key_DS)
    ]
    roots_S = (norms[0] * norms[1] * norms[2]).sqrt()
    return (
        query_DS / norms[0] * roots_S,
        mixing_HS / norms[1],
        key_DS / norms[2] * roots_S,
    )
