"""The cross-entropy of a linear softmax layer, computed a few rows at a time.

The logits of all positions would be by far the largest tensor of a training step. Therefore this
module computes the logits of one chunk of rows at a time, adds their loss and gradients to the
totals, and frees them. On a CPU, it also splits the vocabulary into blocks.
Shapes: N rows, D embedding_size, V vocabulary, K tokens of a block, B blocks.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

IGNORED = -100
"""The target of a position whose prediction does not count."""

# On a CPU, a chunk has _LOGITS_CPU logits, but at least _ROWS_CPU rows, because matrix products
# with fewer rows are slow.
_LOGITS_CPU, _ROWS_CPU = 2**22, 512
# On a CPU, a block has this many tokens, so that its weights fit into the CPU's cache. Without
# blocks, matrix products with the weights of 32k tokens take a tenth longer.
_BLOCK_CPU = 4096
# On a GPU, a chunk has this many logits, such as 8192 rows of 32k tokens. This keeps the GPU busy.
_LOGITS_GPU = 2**28


def linear_cross_entropy(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    targets_N: Tensor,
    bias_V: Tensor | None = None,
) -> Tensor:
    """Return the sum over rows of -log softmax(hidden weight^T + bias)[target], in nats.

    Rows with the target IGNORED do not count. Gradients are exact.
    """
    if torch.is_grad_enabled():
        total: Tensor = _LinearCrossEntropy.apply(
            hidden_ND, weight_VD, targets_N, bias_V
        )  # type: ignore[no-untyped-call]
        return total
    total = torch.zeros((), device=hidden_ND.device)
    for rows in _chunks(hidden_ND, weight_VD):
        # Under autocast, F.cross_entropy computes in single precision.
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


def _blocks(tensor_V: Tensor) -> list[Tensor]:
    """Split a tensor along its first axis, the vocabulary, into blocks."""
    size = _BLOCK_CPU if tensor_V.device.type == "cpu" else len(tensor_V)
    return list(torch.split(tensor_V, size))


def _losses_and_gradients(
    hidden_ND: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor | None],
    targets_N1: Tensor,
) -> tuple[Tensor, list[Tensor]]:
    """Return the cross-entropies nats_N1, and for each block the gradient_NK of its logits.

    The gradient of a row is the softmax over the vocabulary, minus 1 at the target. First compute a
    softmax within each block. The logarithm of its denominator is the block's largest logit minus
    the logarithm of the largest probability. That probability is at least 1/K, so it cannot
    underflow. Then rescale the blocks, so that the sum of all denominators replaces the denominator
    of each block.
    """
    chosen_N1 = torch.zeros((), device=hidden_ND.device)
    gradients, denominators, places, first = [], [], [], 0
    for weight_KD, bias_K in zip(weights, biases, strict=True):
        logits_NK = F.linear(hidden_ND, weight_KD, bias_K)
        single = torch.promote_types(logits_NK.dtype, torch.float32)
        gradient_NK = logits_NK.softmax(1, dtype=_softmax_dtype(logits_NK))
        largest_N1 = logits_NK.amax(1, keepdim=True).to(single)
        denominators.append(
            largest_N1 - gradient_NK.amax(1, keepdim=True).to(single).log()
        )
        place_N1 = (targets_N1 - first).clamp(0, len(weight_KD) - 1)
        here_N1 = (place_N1 == targets_N1 - first).to(single)
        chosen_N1 = chosen_N1 + logits_NK.gather(1, place_N1) * here_N1
        gradients.append(gradient_NK)
        places.append((place_N1, here_N1))
        first += len(weight_KD)

    denominator_NB = torch.cat(denominators, 1)
    denominator_N1 = denominator_NB.logsumexp(1, keepdim=True)

    shares = torch.split((denominator_NB - denominator_N1).exp(), 1, dim=1)
    for gradient_NK, share_N1, (place_N1, here_N1) in zip(
        gradients, shares, places, strict=True
    ):
        if len(gradients) > 1:  # a single block needs no rescaling
            gradient_NK *= share_N1
        gradient_NK.scatter_(1, place_N1, gradient_NK.gather(1, place_N1).sub_(here_N1))
    return denominator_N1 - chosen_N1, [one.to(logits_NK.dtype) for one in gradients]


def _softmax_dtype(logits: Tensor) -> torch.dtype:
    """Return the dtype in which to store the probabilities of these logits.

    On a GPU this is the dtype of the logits. Storing the probabilities of bfloat16 logits in single
    precision would take most of the time there. On a CPU, single precision is faster. On both, the
    caller computes sums in at least single precision.
    """
    if logits.device.type == "cpu":
        return torch.promote_types(logits.dtype, torch.float32)
    return logits.dtype


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if left.dtype == right.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        # Under autocast, the product has a lower precision than `total`, so addmm_ cannot add it.
        total += left @ right


class _LinearCrossEntropy(torch.autograd.Function):
    """The autograd function of `linear_cross_entropy`.

    The forward pass computes the loss and all gradients, one chunk of rows at a time. The backward
    pass only multiplies these gradients by the gradient of the loss.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_ND: Tensor,
        weight_VD: Tensor,
        targets_N: Tensor,
        bias_V: Tensor | None,
    ) -> Tensor:
        total = torch.zeros((), device=hidden_ND.device)
        # Sum in single precision even if hidden_ND is bfloat16. Autograd casts the gradient back.
        single = torch.promote_types(hidden_ND.dtype, torch.float32)
        hidden_gradient = torch.zeros_like(hidden_ND, dtype=single)
        weight_gradient = torch.zeros_like(weight_VD)
        bias_gradient = None if bias_V is None else torch.zeros_like(bias_V)
        weights, weight_gradients = _blocks(weight_VD), _blocks(weight_gradient)
        biases = [None] * len(weights) if bias_V is None else _blocks(bias_V)
        for rows in _chunks(hidden_ND, weight_VD):
            # Multiply rows whose target is IGNORED by 0. Masking their logits would be slower.
            kept_N1 = (targets_N[rows] != IGNORED).unsqueeze(1)
            kept_ND = hidden_ND[rows] * kept_N1
            targets_N1 = targets_N[rows].unsqueeze(1) * kept_N1
            nats_N1, gradients = _losses_and_gradients(
                hidden_ND[rows], weights, biases, targets_N1
            )
            total = total + (nats_N1 * kept_N1).sum()
            for gradient_NK, weight_KD, weight_gradient_KD in zip(
                gradients, weights, weight_gradients, strict=True
            ):
                _add_product(hidden_gradient[rows], gradient_NK, weight_KD)
                _add_product(weight_gradient_KD, gradient_NK.T, kept_ND)
            hidden_gradient[rows] *= kept_N1
            if bias_gradient is not None:
                bias_gradient += torch.cat(
                    [(one * kept_N1).sum(0) for one in gradients]
                )

        ctx.save_for_backward(hidden_gradient, weight_gradient, bias_gradient)
        return total

    @staticmethod
    def backward(
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, Tensor, None, Tensor | None]:
        hidden_gradient, weight_gradient, bias_gradient = ctx.saved_tensors
        return (
            hidden_gradient * gradient,
            weight_gradient * gradient,
            None,
            None if bias_gradient is None else bias_gradient * gradient,
        )
