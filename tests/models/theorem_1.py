"""Which contexts a single head can form, and the projections that form them (Theorem 1).

The paper shows that head size n suffices. Two sharper statements are derived here and hold for
every X of full column rank. Softmax ignores what is added to all logits of a query, so:

- Without a mask, P takes a head of size rank(log P - its first row), at most n - 1: whatever forms
  P has logits log P + 1 c^T, and taking the first key's row off them adds nothing to their rank.
- Under a causal mask the logits of later keys are free, so it takes the least rank of a completion
  of a triangular matrix, which is found row by row. A generic P takes floor(n / 2); the worst, such
  as a P whose every query has the same logits but for its own position, n - 1.

Everything is in double precision. Shapes as in models/context_heads.py.
"""

import math

import torch

from models.context_heads import log_context, visible

_TOLERANCE = 1e-9  # relative; below it a singular value or a residual counts as zero


def context(w_q_PD, w_k_PD, x_DN, *, causal=False):
    """Return context_NN of one head (eq. 3); axes before the last two are heads of their own."""
    return log_context(w_q_PD, w_k_PD, x_DN, causal=causal).exp()


def theorem_1(x_DN, context_NN, diagonal_N):
    """Return w_q_DD and w_k_DD that form the context, constructed as in eq. 4 to 7.

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
    """Return the x_DN and a context_NN that no projections form (the paper's d < n case).

    X is columns of ones but for the last, which is zero: its query weighs all keys alike, and the
    context asks for something else. This X has rank one, so the example says nothing of head size:
    it fails for heads of any size. What a small head cannot form, `smallest_head_size` says.
    """
    x_DN = torch.ones(embedding_size, length, dtype=torch.float64)
    x_DN[:, -1] = 0
    context_NN = torch.full((length, length), 1 / length, dtype=torch.float64)
    context_NN[:, -1] = 0.25 / (length - 1)
    context_NN[0, -1] = 0.75
    return x_DN, context_NN


def smallest_head_size(context_NN, *, causal=False):
    """Return the least head size that forms the context from every X of full column rank."""
    return int(
        torch.linalg.matrix_rank(_simplest_logits(context_NN, causal), rtol=_TOLERANCE)
    )


def represent(x_DN, context_NN, head_size, *, causal=False):
    """Return w_q_PD and w_k_PD of the given head size, at least the smallest, for the context."""
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
    """Return logits of least rank among those whose softmax is the context."""
    if not causal:
        logarithms_NN = context_NN.log()
        return logarithms_NN - logarithms_NN[0]
    seen_NN = visible(len(context_NN))
    logarithms_NN = torch.where(seen_NN, context_NN, 1).log()
    # Every query sees the first key, so its row can be the one that is taken off here too.
    logits_NN = torch.where(seen_NN, logarithms_NN - logarithms_NN[0], 0)
    for key in range(2, len(logits_NN)):
        # Where it sees, a row that the rows above can combine to is so combined where it does not.
        above, row = logits_NN[1:key], logits_NN[key]
        weights = torch.linalg.lstsq(
            above[:, key:].T, row[key:], driver="gelsd"
        ).solution
        combined = weights @ above
        if (combined - row)[key:].norm() <= _TOLERANCE * row[key:].norm():
            row[:key] = combined[:key]
    return logits_NN
