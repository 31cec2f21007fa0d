"""Cross-entropy of a linear softmax layer, a few rows at a time.

The logits of all positions at once would be the largest tensor of a training step, several times
over. Here a chunk of rows is projected, scored, differentiated and dropped before the next.
Shapes: N rows, D embedding_size, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

IGNORED = -100
"""The target of a position where there is nothing to predict."""

# Logits at a time: for 32k words 256 rows, which suit a CPU, and 8192, which fill a GPU.
_LOGITS_CPU, _LOGITS_GPU = 2**23, 2**28


def linear_cross_entropy(
    hidden_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, bias_V: Tensor | None = None
) -> Tensor:
    """Return the sum of -log softmax(hidden weight^T + bias)[target], in nats.

    Targets that are IGNORED are left out. The gradients are exact.
    """
    chunks = _chunks(hidden_ND, weight_VD)
    if len(chunks) == 1:
        return _nats(F.linear(hidden_ND, weight_VD, bias_V), targets_N)
    if torch.is_grad_enabled():
        total: Tensor = _LinearCrossEntropy.apply(hidden_ND, weight_VD, targets_N, bias_V)  # type: ignore[no-untyped-call]
        return total
    total = torch.zeros((), device=hidden_ND.device)
    for chunk in chunks:
        total = total + _nats(F.linear(hidden_ND[chunk], weight_VD, bias_V), targets_N[chunk])
    return total


def _chunks(rows_ND: Tensor, weight_VD: Tensor) -> list[slice]:
    logits = _LOGITS_CPU if rows_ND.device.type == "cpu" else _LOGITS_GPU
    size = max(logits // len(weight_VD), 1)
    return [slice(start, start + size) for start in range(0, len(rows_ND), size)]


def _nats(logits_NV: Tensor, targets_N: Tensor) -> Tensor:
    """Autocast, where it is on, scores in single precision."""
    return F.cross_entropy(logits_NV, targets_N, ignore_index=IGNORED, reduction="sum")


class _LinearCrossEntropy(torch.autograd.Function):
    """Takes the gradients in the forward pass, while a chunk's logits exist."""

    @staticmethod
    def forward(
        ctx: Any, hidden_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, bias_V: Tensor | None
    ) -> Tensor:
        total = torch.zeros((), device=hidden_ND.device)
        hidden_gradient = torch.empty_like(hidden_ND)
        weight_gradient = torch.zeros_like(weight_VD)
        bias_gradient = None if bias_V is None else torch.zeros_like(bias_V)
        for chunk in _chunks(hidden_ND, weight_VD):
            logits_NV = F.linear(hidden_ND[chunk], weight_VD, bias_V).requires_grad_()
            with torch.enable_grad():
                nats = _nats(logits_NV, targets_N[chunk])
            (gradient_NV,) = torch.autograd.grad(nats, logits_NV)
            hidden_gradient[chunk] = gradient_NV @ weight_VD
            if gradient_NV.dtype == weight_gradient.dtype:
                weight_gradient.addmm_(gradient_NV.T, hidden_ND[chunk])
            else:  # autocast multiplies in less precision; the chunks still add up in full
                weight_gradient += gradient_NV.T @ hidden_ND[chunk]
            if bias_gradient is not None:
                bias_gradient += gradient_NV.sum(0)
            total = total + nats.detach()
        ctx.save_for_backward(hidden_gradient, weight_gradient, bias_gradient)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, Tensor | None]:
        hidden_gradient, weight_gradient, bias_gradient = ctx.saved_tensors
        return (
            hidden_gradient * gradient,
            weight_gradient * gradient,
            None,
            None if bias_gradient is None else bias_gradient * gradient,
        )
