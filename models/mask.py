"""Attention masks for rows that hold several segments, such as packed sentences.

A position attends only to its own segment. A CPU saves time if it computes attention segment by
segment instead of over whole rows. For this, `SegmentLayout` copies the segments of a batch into
slots, the positions of a padded array.
Shapes: B batch, T positions, H heads, P head_size, N segments of the batch, S slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

# Segments with equally many slots are computed in one call. Round the length of each segment up to
# a multiple of STEP, so that more segments have equally many slots.
STEP = 8


def attention_mask(segments_BT: Tensor, *, causal: bool) -> Tensor:
    """Return mask_B1TT, which is True where a query (axis 2) may attend to a key (axis 3).

    A position attends only to its own segment, and with `causal=True` not to later positions. Every
    position attends at least to itself, because a softmax over no keys is NaN. On a CPU, the mask
    is a SegmentMask if this saves time.

    Args:
        segments_BT: the segment number of each position. Adjacent positions with equal numbers form
            a segment. Padding has the number 0.
    """
    mask_B1TT = (segments_BT[:, :, None] == segments_BT[:, None, :]).unsqueeze(1)
    if causal:
        length = segments_BT.shape[1]
        earlier_TT = torch.ones(
            length, length, dtype=torch.bool, device=segments_BT.device
        ).tril()
        mask_B1TT = mask_B1TT & earlier_TT
    # SegmentLayout reads segments_BT on the CPU. Copying it from a GPU would make the CPU wait.
    if segments_BT.device.type != "cpu":
        mask_B1TT.causal = causal  # type: ignore[attr-defined]  # _fused.py reads it
        return mask_B1TT
    layout = SegmentLayout.of(segments_BT)
    return (
        SegmentMask.over(mask_B1TT, layout, causal=causal)
        if layout.saves
        else mask_B1TT
    )


@dataclass(frozen=True)
class SegmentLayout:
    """The assignment of a batch's positions to slots.

    The slots of a segment are consecutive. A segment has as many slots as positions, rounded up to
    a multiple of STEP. The surplus slots at its end are padding. All segments with equally many
    slots form a group, and the slots of a group are consecutive.

    Attributes:
        rows: B.
        groups: for each group, the number of its segments and the number of slots per segment.
        source_S: for each slot, the position that is copied into the slot, as an index into the
            flattened batch. Padding slots get a copy of the segment's last position.
        slot_BT: for each position of the batch, the index of its slot.
        real_S: False for padding slots, True for all others.
    """

    rows: int
    groups: list[tuple[int, int]]
    source_S: Tensor
    slot_BT: Tensor
    real_S: Tensor

    @classmethod
    def of(cls, segments_BT: Tensor) -> Self:
        """Return the layout of a batch with these segment numbers, which must be on the CPU."""
        rows, length = segments_BT.shape
        numbers_BT = segments_BT.numpy()
        first_BT = np.ones((rows, length), bool)
        first_BT[:, 1:] = numbers_BT[:, 1:] != numbers_BT[:, :-1]
        start_N = first_BT.ravel().nonzero()[0]
        length_N = np.diff(start_N, append=rows * length)
        slots_N = -(-length_N // STEP) * STEP

        order_N = slots_N.argsort(kind="stable")
        start_N = start_N[order_N]
        length_N = length_N[order_N]
        slots_N = slots_N[order_N]
        slots, counts = np.unique(slots_N, return_counts=True)

        begin_N = np.cumsum(slots_N) - slots_N
        offset_S = np.arange(slots_N.sum()) - begin_N.repeat(slots_N)
        last_S = (length_N - 1).repeat(slots_N)
        source_S = start_N.repeat(slots_N) + np.minimum(offset_S, last_S)
        real_S = offset_S <= last_S

        slot_BT = np.empty(rows * length, np.int64)
        slot_BT[source_S[real_S]] = real_S.nonzero()[0]
        groups = list(zip(counts.tolist(), slots.tolist(), strict=True))
        tensor = torch.from_numpy
        return cls(rows, groups, tensor(source_S), tensor(slot_BT), tensor(real_S))

    @property
    def saves(self) -> bool:
        """True if attention by segment has at most half the query-key pairs of whole rows."""
        within = sum(count * slots**2 for count, slots in self.groups)
        return 2 * within <= len(self.slot_BT) ** 2 // self.rows


class SegmentMask(Tensor):
    """A mask that makes `F.scaled_dot_product_attention` compute each segment separately.

    All other functions treat it as an ordinary mask_B1TT. Attention gives the same result as with
    the ordinary mask, up to rounding. `torch.nn.attention.bias.CausalBias` is a similar subclass of
    Tensor.
    """

    segments: SegmentLayout
    causal: bool

    @classmethod
    def over(cls, mask_B1TT: Tensor, layout: SegmentLayout, *, causal: bool) -> Self:
        mask = mask_B1TT.as_subclass(cls)
        mask.segments, mask.causal = layout, causal
        return mask

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is F.scaled_dot_product_attention and cls._covers(
            *args, **kwargs or {}
        ):
            return _by_segment(*args, **kwargs or {})
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **kwargs or {})

    @staticmethod
    def _covers(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: SegmentMask,
        *_: Any,
        **__: Any,
    ) -> bool:
        """Return whether queries, keys and values have the same B and T as the mask."""
        here = (attn_mask.shape[0], attn_mask.shape[-1])
        return all(
            part.dim() == 4 and part.shape[::2] == here for part in (query, key, value)
        )


@torch.compiler.disable  # type: ignore[untyped-decorator]  # else recompiled for each batch
def _by_segment(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: SegmentMask,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute scaled dot-product attention, one group of segments at a time.

    `query`, `key` and `value` have the shape (B, H, T, P). Return context_BHTP.
    """
    assert not is_causal  # PyTorch forbids is_causal together with a mask
    layout = attn_mask.segments
    sizes = [count * slots for count, slots in layout.groups]
    laid_out = [
        torch.split(
            one.transpose(1, 2).flatten(0, 1).index_select(0, layout.source_S), sizes
        )
        for one in (query, key, value)
    ]

    contexts = []
    for (count, slots), real, *qkv in zip(
        layout.groups, torch.split(layout.real_S, sizes), *laid_out, strict=True
    ):
        q, k, v = (
            part.view(count, slots, *part.shape[1:]).transpose(1, 2) for part in qkv
        )
        context = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=None if attn_mask.causal else real.view(count, 1, 1, slots),
            dropout_p=dropout_p,
            is_causal=attn_mask.causal,  # this also hides padding, which follows all keys
            scale=scale,
            enable_gqa=enable_gqa,
        )
        contexts.append(context.transpose(1, 2).flatten(0, 1))

    context_THP = torch.cat(contexts).index_select(0, layout.slot_BT)
    return context_THP.view(layout.rows, -1, *context_THP.shape[1:]).transpose(1, 2)
