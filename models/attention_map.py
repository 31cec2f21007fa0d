"""What trained heads do: the rank of the logits they form, and how widely they spread attention.

Shapes: B batch, H heads, T positions, P size of queries and keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

# The arguments of scaled_dot_product_attention that may be given without their names.
_TAKEN = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
TOLERANCE = 0.01  # a singular value below this share of the largest adds nothing to the rank


@dataclass(frozen=True)
class HeadMeasures:
    """Of the heads of one layer, means over rows.

    Attributes:
        rank_H: numerical rank of the logits between all positions of a row, less what is added to
            all keys of a query, which the softmax ignores; at most the size of queries and keys.
        entropy_H: nats of a query's attention weights, over queries that see more than one key.
    """

    rank_H: Tensor
    entropy_H: Tensor


def head_measures(call: Callable[[], object]) -> list[HeadMeasures]:
    """Return the measures of every attention that `call()` computes, in order.

    It sees whatever goes through scaled_dot_product_attention: nothing of a variant that weighs
    positions in another way.
    """
    seen = _Watch()
    with ExitStack() as stack:
        # A compiled graph would hide the call.
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(seen)
        call()
    return seen.measured


class _Watch(TorchFunctionMode):
    """Measures the queries and keys of each attention on their way."""

    def __init__(self) -> None:
        super().__init__()
        self.measured: list[HeadMeasures] = []

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if function is F.scaled_dot_product_attention:
            self.measured.append(_measures({**dict(zip(_TAKEN, args, strict=False)), **options}))
        return function(*args, **options)


def _measures(given: Mapping[str, Any]) -> HeadMeasures:
    """Return the measures of a call of scaled_dot_product_attention, by the names of its arguments.

    Raises:
        ValueError: queries and keys are not of the shape (B, H, T, P).
    """
    q_BHTP, k_BHTP, mask = given["query"].float(), given["key"].float(), given.get("attn_mask")
    if given.get("enable_gqa"):  # several heads of queries share one of keys
        k_BHTP = k_BHTP.repeat_interleave(q_BHTP.shape[-3] // k_BHTP.shape[-3], dim=-3)
    if q_BHTP.dim() != 4 or q_BHTP.shape != k_BHTP.shape:
        found = f"{tuple(q_BHTP.shape)} and {tuple(k_BHTP.shape)}"
        raise ValueError(f"queries and keys are to be (B, H, T, P) for each head, not {found}")
    scale = given.get("scale")
    scale = 1 / math.sqrt(q_BHTP.shape[-1]) if scale is None else scale
    logits_BHTT = scale * q_BHTP @ k_BHTP.mT
    if mask is None:
        mask = torch.ones(logits_BHTT.shape[-2:], dtype=torch.bool, device=logits_BHTT.device)
        mask = mask.tril() if given.get("is_causal") else mask
    if mask.dtype != torch.bool:  # a bias of the logits, -inf where nothing is seen
        logits_BHTT = logits_BHTT + mask.float().nan_to_num(neginf=0.0)
        mask = mask > -math.inf
    seen_BHTT = mask.expand_as(logits_BHTT)
    return HeadMeasures(numerical_rank(logits_BHTT).mean(0), _entropy(logits_BHTT, seen_BHTT))


def numerical_rank(logits_BHTT: Tensor) -> Tensor:
    """Return rank_BH, of the logits less the mean of each query."""
    centred_BHTT = logits_BHTT - logits_BHTT.mean(-1, keepdim=True)
    values_BHT = torch.linalg.svdvals(centred_BHTT)
    rank_BH: Tensor = (values_BHT > TOLERANCE * values_BHT[..., :1]).sum(-1).float()
    return rank_BH


def _entropy(logits_BHTT: Tensor, seen_BHTT: Tensor) -> Tensor:
    """Return entropy_H in nats."""
    weights_BHTT = logits_BHTT.masked_fill(~seen_BHTT, -math.inf).softmax(-1)
    entropy_BHT = torch.special.entr(weights_BHTT).sum(-1)
    choice_BHT = seen_BHTT.sum(-1) > 1
    kept = torch.where(choice_BHT, entropy_BHT, 0.0).sum((0, 2))
    entropy_H: Tensor = kept / choice_BHT.sum((0, 2)).clamp_min(1)
    return entropy_H
