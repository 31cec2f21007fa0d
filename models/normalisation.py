"""Normalisation by the root mean square (RMSNorm)."""

import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.RMSNorm):
    """Division by the root mean square, then learned scales (Zhang and Sennrich 2019)."""

    def __init__(self, size: int, *, eps: float = 1.0e-6) -> None:
        super().__init__(size, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x over its last axis. The result has the precision of x."""
        # Under autocast, x may be in half precision. F.rms_norm needs scales of the same type.
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)
