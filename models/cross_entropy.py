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

# A CPU takes few logits at a time, but no fewer rows than its matrix products are fast with; a GPU
# takes what fills it, 8192 rows of 32k words.
_LOGITS_CPU, _ROWS_CPU, _LOGITS_GPU = 2**22, 256, 2**28


def linear_cross_entropy(
    hidden_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, bias_V: Tensor | None = None
) -> Tensor:
    """Return the sum of -log softmax(hidden weight^T + bias)[target], in nats.

    Targets that are IGNORED are left out. The gradients are exact.
    """
    if torch.is_grad_enabled():
        total: Tensor = _LinearCrossEntropy.apply(hidden_ND, weight_VD, targets_N, bias_V)  # type: ignore[no-untyped-call]
        return total
    total = torch.zeros((), device=hidden_ND.device)
    for rows in _chunks(hidden_ND, weight_VD):
        # Autocast, where it is on, scores in single precision.
        logits_NV = F.linear(hidden_ND[rows], weight_VD, bias_V)
        total = total + F.cross_entropy(
            logits_NV, targets_N[rows], ignore_index=IGNORED, reduction="sum"
        )
    return total


def _chunks(hidden_ND: Tensor, weight_VD: Tensor) -> list[slice]:
    if hidden_ND.device.type == "cpu":
        size = max(_LOGITS_CPU // len(weight_VD), _ROWS_CPU)
    else:
        size = max(_LOGITS_GPU // len(weight_VD), 1)
    return [slice(start, start + size) for start in range(0, len(hidden_ND), size)]


def _scored(logits_NV: Tensor, targets_N1: Tensor) -> tuple[Tensor, Tensor]:
    """Return nats_N1 and gradient_NV, their gradient with respect to the logits.

    One softmax serves both: the logarithm of its denominator is that of its largest probability,
    which is at least 1/V and so cannot underflow as the target's may.
    """
    single = torch.promote_types(logits_NV.dtype, torch.float32)
    gradient_NV = logits_NV.softmax(1, dtype=single)
    largest_N1, chosen_N1 = logits_NV.amax(1, keepdim=True), logits_NV.gather(1, targets_N1)
    nats_N1 = largest_N1.to(single) - chosen_N1 - gradient_NV.amax(1, keepdim=True).log()
    gradient_NV.scatter_(1, targets_N1, gradient_NV.gather(1, targets_N1) - 1)
    return nats_N1, gradient_NV.to(logits_NV.dtype)


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
        for rows in _chunks(hidden_ND, weight_VD):
            # What is to be left out is so by a factor of each row: the logits are not touched.
            kept_N1 = (targets_N[rows] != IGNORED).unsqueeze(1)
            kept_ND = hidden_ND[rows] * kept_N1
            logits_NV = F.linear(hidden_ND[rows], weight_VD, bias_V)
            nats_N1, gradient_NV = _scored(logits_NV, targets_N[rows].unsqueeze(1) * kept_N1)
            total = total + (nats_N1 * kept_N1).sum()
            hidden_gradient[rows] = (gradient_NV @ weight_VD) * kept_N1
            if gradient_NV.dtype == weight_gradient.dtype:
                weight_gradient.addmm_(gradient_NV.T, kept_ND)
            else:  # autocast multiplies in less precision; the chunks still add up in full
                weight_gradient += gradient_NV.T @ kept_ND
            if bias_gradient is not None:
                bias_gradient += (gradient_NV * kept_N1).sum(0)
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
