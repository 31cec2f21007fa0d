"""The smallest head that can form a context P, and its projections (Theorem 1).

The paper shows that head size n suffices. For a given context, this module computes the smallest
head size that suffices for every X of full column rank. The softmax ignores a number that is added
to all logits of a query. So the logits of a head that forms P are log P + 1 c^T for some c.

- Without a mask, the smallest head size is the rank of log P minus its first row. Subtracting the
  first row from logits does not increase their rank. It is at most n - 1.
- With a causal mask, the logits of later keys are arbitrary. So the smallest head size is the
  smallest rank of a completion of a triangular matrix, which is found row by row. A generic P needs
  floor(n / 2). The worst P needs n - 1, such as one where each query has equal logits except for
  its own position.

All tensors have double precision. models/context_heads.py explains the shapes.
"""

import math

import torch

from models.context_heads import log_context, visible

_TOLERANCE = (
    1e-9  # relative size below which a singular value or a residual counts as zero
)


def context(w_q_PD, w_k_PD, x_DN, *, causal=False):
    """Return context_NN of a head (eq. 3). Further axes in front are independent heads."""
    return log_context(w_q_PD, w_k_PD, x_DN, causal=causal).exp()


def theorem_1(x_DN, context_NN, diagonal_N):
    """Return w_q_DD and w_k_DD that form the context, by the paper's eq. 4 to 7.

    `diagonal_N` is the paper's arbitrary positive D_0. X must have full column rank, so d >= n, and
    the context must be positive with columns that add up to one.
    """
    size, length = x_DN.shape
    kq_NN = math.sqrt(size) * (context_NN * diagonal_N).log()  # eq. 6
    padding = kq_NN.new_zeros(size - length, length)
    left_inverse_ND = torch.linalg.pinv(x_DN)
    w_k_DD = torch.cat((torch.eye(length).to(x_DN), padding)) @ left_inverse_ND
    w_q_DD = torch.cat((kq_NN, padding)) @ left_inverse_ND
    return w_q_DD, w_k_DD


def impossible_example(embedding_size, length):
    """Return x_DN and a context_NN that no projections form (the paper's case d < n).

    The columns of X are ones, except for the last one, which is zero. So the last query has equal
    weights for all keys, unlike in the returned context. No head of any size forms this context,
    because the rank of X is 1. So the example says nothing about the head size.
    """
    x_DN = torch.ones(embedding_size, length, dtype=torch.float64)
    x_DN[:, -1] = 0
    context_NN = torch.full((length, length), 1 / length, dtype=torch.float64)
    context_NN[:, -1] = 0.25 / (length - 1)
    context_NN[0, -1] = 0.75
    return x_DN, context_NN


def smallest_head_size(context_NN, *, causal=False):
    """Return the smallest head size that can form the context for every X of full column rank."""
    return int(
        torch.linalg.matrix_rank(_simplest_logits(context_NN, causal), rtol=_TOLERANCE)
    )


def represent(x_DN, context_NN, head_size, *, causal=False):
    """Return w_q_PD and w_k_PD that form the context. `head_size` must be large enough."""
    logits_NN = _simplest_logits(context_NN, causal)
    left_NN, values_N, right_NN = torch.linalg.svd(logits_NN)
    rank = int((values_N > _TOLERANCE * values_N[0]).sum())
    roots_N = (math.sqrt(head_size) * values_N[:rank]).sqrt().unsqueeze(1)
    padding = x_DN.new_zeros(head_size - rank, len(logits_NN))
    left_inverse_ND = torch.linalg.pinv(x_DN)
    w_k_PD = torch.cat((roots_N * left_NN.T[:rank], padding)) @ left_inverse_ND
    w_q_PD = torch.cat((roots_N * right_NN[:rank], padding)) @ left_inverse_ND
    return w_q_PD, w_k_PD


def _simplest_logits(context_NN, causal):
    """Return the logits of smallest rank whose softmax is the context."""
    if not causal:
        logarithms_NN = context_NN.log()
        return logarithms_NN - logarithms_NN[0]
    seen_NN = visible(len(context_NN))
    logarithms_NN = torch.where(seen_NN, context_NN, 1).log()
    # Every query sees the first key, so its row can be subtracted with a causal mask, too.
    logits_NN = torch.where(seen_NN, logarithms_NN - logarithms_NN[0], 0)
    for key in range(2, len(logits_NN)):
        # If a combination of the rows above equals the visible part of this row, use the same
        # combination for its hidden part, so that the rank does not increase.
        above, row = logits_NN[1:key], logits_NN[key]
        weights = torch.linalg.lstsq(
            above[:, key:].T, row[key:], driver="gelsd"
        ).solution
        combined = weights @ above
        if (combined - row)[key:].norm() <= _TOLERANCE * row[key:].norm():
            row[:key] = combined[:key]
    return logits_NN
