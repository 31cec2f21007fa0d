"""Heads that form contexts and nothing else, as in the paper's Theorem 1: no values, no output.

The layout is the paper's, where a column is a position: X is d x n, and a context P is n x n with
entry (j, i) the weight of key j for query i, so that columns add up to one.
Shapes: D embedding_size (d), N positions (n), P head_size (d_p), K problems.
"""

import math

import torch
from torch import Tensor, nn


class ContextHeads(nn.Module):
    """A head for each of K problems, which share nothing; a batch of them costs as much as one."""

    def __init__(self, problems: int, embedding_size: int, head_size: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(problems, head_size, embedding_size))
        self.key = nn.Parameter(torch.empty(problems, head_size, embedding_size))
        for weight in (self.query, self.key):
            nn.init.normal_(weight, std=embedding_size**-0.5)

    def forward(self, x_KDN: Tensor, *, causal: bool) -> Tensor:
        """Return the logarithms of contexts_KNN, -inf where a causal mask hides the key."""
        return log_context(self.query, self.key, x_KDN, causal=causal)

    def embedding_parameters(self) -> list[nn.Parameter]:
        """Return nothing: inputs are vectors already."""
        return []


def log_context(w_q_PD: Tensor, w_k_PD: Tensor, x_DN: Tensor, *, causal: bool = False) -> Tensor:
    """Return log context_NN, of softmax over keys of (W_k X)^T (W_q X) / sqrt(d_p) (eq. 3).

    Axes before the last two are heads of their own.
    """
    logits_NN = (w_k_PD @ x_DN).mT @ (w_q_PD @ x_DN) / math.sqrt(w_q_PD.shape[-2])
    if causal:
        hidden_NN = ~visible(x_DN.shape[-1], device=x_DN.device)
        logits_NN = logits_NN.masked_fill(hidden_NN, -math.inf)
    return logits_NN.log_softmax(dim=-2)


def visible(length: int, device: torch.device | None = None) -> Tensor:
    """Return where key j (row) is not later than query i (column), under a causal mask."""
    return torch.ones(length, length, dtype=torch.bool, device=device).triu()
