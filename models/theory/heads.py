"""Heads that form contexts and nothing else, for gradient descent to fit: no values, no output.

Shapes: K problems, N positions, D embedding_size, P head_size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.theory.representation import log_context


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
