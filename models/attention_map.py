"""Measures of trained heads: attention weights, the rank of their logits, their entropy.

Shapes: B batch, H heads, T positions, P size of queries and keys, N the smaller of T and P.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

# The arguments of scaled_dot_product_attention that may be positional.
_TAKEN = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
_Taken = TypeVar("_Taken")
# A singular value below this share of the largest does not count for the rank.
TOLERANCE = 0.01


@dataclass(frozen=True)
class HeadMeasures:
    """Measures of the heads of one layer, as means over rows.

    Attributes:
        rank_H: the numerical rank of the logits between all positions of a row, after the mean of
            each query is subtracted, because the softmax ignores it. The rank is at most the size
            of queries and keys.
        entropy_H: the entropy, in nats, of a query's attention weights, as a mean over the queries
            that see more than one key.
    """

    rank_H: Tensor
    entropy_H: Tensor


class _Attended(NamedTuple):
    """The logits of one attention as a product of two factors, and its mask.

    `seen_BHTT` is True where a query (third axis) sees a key (last axis).
    """

    left_BHTP: Tensor
    right_BHTP: Tensor
    logits_BHTT: Tensor
    seen_BHTT: Tensor


def head_measures(
    call: Callable[[], object], real_BT: Tensor | None = None
) -> list[HeadMeasures]:
    """Return the measures of every attention that `call()` computes, in order.

    Only calls of scaled_dot_product_attention with a key for each position are measured. A variant
    that computes attention in another way is not.

    Args:
        real_BT: False at padding, which is left out. If it is given, attention over other rows,
            such as blocks of a row, is not measured.
    """

    def take(of: _Attended) -> HeadMeasures | None:
        rows_BT = (of.seen_BHTT.shape[0], of.seen_BHTT.shape[-1])
        return (
            _measures(of, real_BT)
            if real_BT is None or real_BT.shape == rows_BT
            else None
        )

    return _watched(call, take)


def attention_weights(call: Callable[[], object]) -> list[Tensor]:
    """Return weights_BHTT of every attention that `call()` computes, in order.

    The last axis is a query's attention to each key and adds up to 1. A layer with heads of several
    sizes computes one attention for each size. See `head_measures` for which calls are measured.
    """
    return _watched(call, _weights)


def _watched(
    call: Callable[[], object], take: Callable[[_Attended], _Taken | None]
) -> list[_Taken]:
    watch = _Watch(take)
    # Run eagerly and without gradients: a compiled graph would hide the call, and training on a GPU
    # may use another function (see `models.attention._fused`).
    with torch.no_grad(), torch.compiler.set_stance("force_eager"), watch:
        call()
    return watch.taken


class _Watch(TorchFunctionMode):
    """A mode that applies `take` to the logits of each attention and keeps the results."""

    def __init__(self, take: Callable[[_Attended], Any]) -> None:
        super().__init__()
        self._take = take
        self.taken: list[Any] = []

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if function is F.scaled_dot_product_attention:
            given = {**dict(zip(_TAKEN, args, strict=False)), **options}
            # Never in half precision: small singular values decide the rank, and a GPU computes no
            # eigenvalues in half precision.
            with without_autocast(given["query"].device):
                of = _attended(given)
                found = None if of is None else self._take(of)
            if found is not None:
                self.taken.append(found)
        return function(*args, **options)


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which tensors are multiplied in their own precision."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()  # the meta device has no autocast


def _attended(given: Mapping[str, Any]) -> _Attended | None:
    """Return the logits and the mask of a call of scaled_dot_product_attention.

    Return None if queries and keys do not have the same shape (B, H, T, P), after repeating keys
    that rows or heads share.

    Args:
        given: the arguments of the call, by name.
    """
    q_BHTP, k_BHTP, mask = (
        given["query"].float(),
        given["key"].float(),
        given.get("attn_mask"),
    )
    if given.get("enable_gqa"):  # several query heads share one key head
        k_BHTP = k_BHTP.repeat_interleave(q_BHTP.shape[-3] // k_BHTP.shape[-3], dim=-3)
    if q_BHTP.dim() != 4 or k_BHTP.shape[-2:] != q_BHTP.shape[-2:]:
        return None
    k_BHTP = k_BHTP.expand_as(q_BHTP)
    scale = given.get("scale")
    scale = 1 / math.sqrt(q_BHTP.shape[-1]) if scale is None else scale
    left_BHTP, right_BHTP = scale * q_BHTP, k_BHTP
    logits_BHTT = left_BHTP @ right_BHTP.mT
    if mask is None:
        mask = torch.ones(
            logits_BHTT.shape[-2:], dtype=torch.bool, device=logits_BHTT.device
        )
        mask = mask.tril() if given.get("is_causal") else mask
    if (
        mask.dtype != torch.bool
    ):  # the mask is added to the logits, -inf where a key is hidden
        logits_BHTT = logits_BHTT + mask.float().nan_to_num(neginf=0.0)
        left_BHTP, right_BHTP = (
            logits_BHTT,
            torch.eye(logits_BHTT.shape[-1], device=mask.device),
        )
        mask = mask > -math.inf
    return _Attended(left_BHTP, right_BHTP, logits_BHTT, mask.expand_as(logits_BHTT))


def _measures(of: _Attended, real_BT: Tensor | None) -> HeadMeasures:
    left_BHTP, right_BHTP, choice_BHT = (
        of.left_BHTP,
        of.right_BHTP,
        of.seen_BHTT.sum(-1) > 1,
    )
    if (
        real_BT is not None
    ):  # replace padding by zero queries and mean keys, which add no rank
        real_B1T1 = real_BT[:, None, :, None]
        mean_BH1P = (right_BHTP * real_B1T1).sum(-2, keepdim=True) / real_B1T1.sum(
            -2, keepdim=True
        )
        left_BHTP = left_BHTP * real_B1T1
        right_BHTP = torch.where(real_B1T1, right_BHTP, mean_BH1P)
        choice_BHT = choice_BHT & real_BT[:, None]
    rank_BH = numerical_rank(left_BHTP, right_BHTP)
    entropy_BHT = torch.special.entr(_weights(of)).sum(-1)
    total_H = torch.where(choice_BHT, entropy_BHT, 0.0).sum((0, 2))
    return HeadMeasures(rank_BH.mean(0), total_H / choice_BHT.sum((0, 2)).clamp_min(1))


def _weights(of: _Attended) -> Tensor:
    return of.logits_BHTT.masked_fill(~of.seen_BHTT, -math.inf).softmax(-1)


def numerical_rank(left_BHTP: Tensor, right_BHTP: Tensor) -> Tensor:
    """Return rank_BH of the logits left right^T, minus the mean of each query.

    The squared singular values are computed as the eigenvalues of a Gram matrix of size P x P or
    T x T, whichever is smaller. Eigenvalues are batched on a GPU, singular values are not. Double
    precision leaves eight digits after squaring.
    """
    left_BHTP = left_BHTP.double()
    centred_BHTP = (right_BHTP - right_BHTP.mean(-2, keepdim=True)).double()
    if left_BHTP.shape[-1] < left_BHTP.shape[-2]:
        # With left^T left = V w V^T and root = V w^1/2, the squared singular values are the
        # eigenvalues of root^T (right^T right) root.
        values_BHP, vectors_BHPP = torch.linalg.eigh(left_BHTP.mT @ left_BHTP)
        root_BHPP = vectors_BHPP * values_BHP.clamp_min(0).sqrt().unsqueeze(-2)
        gram_BHNN = root_BHPP.mT @ (centred_BHTP.mT @ centred_BHTP) @ root_BHPP
    else:
        logits_BHTT = left_BHTP @ centred_BHTP.mT
        gram_BHNN = logits_BHTT @ logits_BHTT.mT
    squares_BHN = torch.linalg.eigvalsh(gram_BHNN)  # the largest last
    rank_BH: Tensor = (
        (squares_BHN > TOLERANCE**2 * squares_BHN[..., -1:]).sum(-1).float()
    )
    return rank_BH
