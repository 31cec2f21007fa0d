"""Measures of trained attention heads: weights, their entropy, and the rank of the logits.

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

# The positional arguments of scaled_dot_product_attention, in order.
_TAKEN = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
_Taken = TypeVar("_Taken")
# `numerical_rank` counts the singular values above this fraction of the largest one.
TOLERANCE = 0.01


@dataclass(frozen=True)
class HeadMeasures:
    """Measures of the heads in one call of attention, averaged over the rows of a batch.

    Attributes:
        rank_H: the numerical rank of the T x T matrix of logits, at most P. The mean logit of each
            query is subtracted first, because it does not change the attention weights.
        entropy_H: the entropy of a query's attention weights in nats, averaged over the queries
            that can attend to more than one key.
    """

    rank_H: Tensor
    entropy_H: Tensor


class _Attended(NamedTuple):
    """The logits of one call of scaled_dot_product_attention, their factors, and the mask.

    The product left_BHTP right_BHTP^T equals logits_BHTT. `seen_BHTT` is True where a query (axis
    2) may attend to a key (axis 3).
    """

    left_BHTP: Tensor
    right_BHTP: Tensor
    logits_BHTT: Tensor
    seen_BHTT: Tensor


def head_measures(
    call: Callable[[], object], real_BT: Tensor | None = None
) -> list[HeadMeasures]:
    """Call `call()`, and return the measures of every attention that it computes, in order.

    An attention is a call of scaled_dot_product_attention. If it has unequal numbers of queries and
    keys, it is not measured.

    Args:
        call: a function that calls a model.
        real_BT: False at padding, which the measures ignore. If `real_BT` is given, only attention
            with the same B and T is measured.
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
    """Call `call()`, and return weights_BHTT of every attention that it computes, in order.

    Axis 2 is the query, and axis 3 the key. The weights of a query add up to 1. As in
    `head_measures`, an attention with unequal numbers of queries and keys is left out. A layer with
    heads of several sizes computes one attention for each size.
    """
    return _watched(call, _weights)


def _watched(
    call: Callable[[], object], take: Callable[[_Attended], _Taken | None]
) -> list[_Taken]:
    watch = _Watch(take)
    # A compiled graph would hide calls of scaled_dot_product_attention, so run eagerly. With
    # gradients, a GPU may call a kernel instead (see `models.attention._fused`), so turn them off.
    with torch.no_grad(), torch.compiler.set_stance("force_eager"), watch:
        call()
    return watch.taken


class _Watch(TorchFunctionMode):
    """A TorchFunctionMode that intercepts calls of scaled_dot_product_attention.

    For each call, it calls `take` with the call's `_Attended`. If `take` returns a result other
    than None, it appends the result to the list `taken`.
    """

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
            # Do not use half precision, because the rank depends on small singular values, and a
            # GPU cannot compute eigenvalues in half precision.
            with without_autocast(given["query"].device):
                of = _attended(given)
                found = None if of is None else self._take(of)
            if found is not None:
                self.taken.append(found)
        return function(*args, **options)


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return a context manager that turns autocast off, or does nothing if `device` lacks it."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()  # the meta device has no autocast


def _attended(given: Mapping[str, Any]) -> _Attended | None:
    """Return the logits and the mask of a call of scaled_dot_product_attention.

    If several rows or heads share a key, the key is repeated for each row or head. Return None if
    queries and keys still differ in shape after this, or do not have four axes (B, H, T, P).

    Args:
        given: the arguments of the call, by name.
    """
    q_BHTP, k_BHTP = given["query"].float(), given["key"].float()
    mask = given.get("attn_mask")
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
    if mask.dtype != torch.bool:
        # The mask is a tensor that is added to the logits, and is -inf where it hides a key. The
        # sum is not a product of queries and keys, so use the logits as the left factor, and the
        # identity matrix as the right factor.
        logits_BHTT = logits_BHTT + mask.float().nan_to_num(neginf=0.0)
        left_BHTP = logits_BHTT
        right_BHTP = torch.eye(logits_BHTT.shape[-1], device=mask.device)
        mask = mask > -math.inf
    return _Attended(left_BHTP, right_BHTP, logits_BHTT, mask.expand_as(logits_BHTT))


def _measures(of: _Attended, real_BT: Tensor | None) -> HeadMeasures:
    left_BHTP, right_BHTP = of.left_BHTP, of.right_BHTP
    choice_BHT = of.seen_BHTT.sum(-1) > 1  # queries that can attend to several keys
    if real_BT is not None:
        # Padding must not increase the rank. Set its queries to zero and its keys to the mean key.
        real_B1T1 = real_BT[:, None, :, None]
        sum_BH1P = (right_BHTP * real_B1T1).sum(-2, keepdim=True)
        mean_BH1P = sum_BH1P / real_B1T1.sum(-2, keepdim=True)
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
    """Return rank_BH, the numerical rank of left right^T after each row's mean is subtracted.

    A GPU computes eigenvalues in batches, but not singular values. Therefore compute the squared
    singular values, which are the eigenvalues of a Gram matrix. It has the size P x P or T x T,
    whichever is smaller. Squaring in double precision leaves eight digits.
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
    squares_BHN = torch.linalg.eigvalsh(gram_BHNN)  # in ascending order
    counted_BHN = squares_BHN > TOLERANCE**2 * squares_BHN[..., -1:]
    rank_BH: Tensor = counted_BHN.sum(-1).float()
    return rank_BH
