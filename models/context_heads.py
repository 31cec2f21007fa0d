"""Heads that compute only attention weights, without values and output.

The paper's Theorem 1 is about such heads, and calls the matrix of attention weights the context. As
in the paper, positions are columns. The input X is d x n and the context is n x n. Entry (j, i) of
the context is the weight of key j for query i, so each column adds up to one.
Shapes: D embedding_size (d), N positions (n), P head_size (d_p), K heads.
"""

import math

import torch
from torch import Tensor, nn


class ContextHeads(nn.Module):
    """A batch of K = `problems` independent heads. Each head has its own weights and input."""

    def __init__(self, problems: int, embedding_size: int, head_size: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(problems, head_size, embedding_size))
        self.key = nn.Parameter(torch.empty(problems, head_size, embedding_size))
        for weight in (self.query, self.key):
            nn.init.normal_(weight, std=embedding_size**-0.5)

    def forward(self, x_KDN: Tensor, *, causal: bool) -> Tensor:
        """Return log context_KNN. It is -inf where a causal mask hides a key."""
        return log_context(self.query, self.key, x_KDN, causal=causal)

    def embedding_parameters(self) -> list[nn.Parameter]:
        """Return an empty list, because the inputs are vectors and need no embedding."""
        return []


def log_context(
    w_q_PD: Tensor, w_k_PD: Tensor, x_DN: Tensor, *, causal: bool = False
) -> Tensor:
    """Return log context_NN, where the context is softmax((W_k X)^T (W_q X) / sqrt(d_p)) over keys.

    This is eq. 3 of the paper. The tensors may have leading batch axes.
    """
    logits_NN = (w_k_PD @ x_DN).mT @ (w_q_PD @ x_DN) / math.sqrt(w_q_PD.shape[-2])
    if causal:
        hidden_NN = ~visible(x_DN.shape[-1], device=x_DN.device)
        logits_NN = logits_NN.masked_fill(hidden_NN, -math.inf)
    return logits_NN.log_softmax(dim=-2)


def visible(length: int, device: torch.device | None = None) -> Tensor:
    """Return a causal mask: True where key j (row) is not later than query i (column)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).triu()
