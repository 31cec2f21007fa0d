"""Which positions of a packed row may attend to which."""

from __future__ import annotations

import torch
from torch import Tensor


def attention_mask(segments_BT: Tensor, *, causal: bool) -> Tensor:
    """Return mask_B1TT, True where the query (third axis) may attend to the key (last axis).

    A position sees its own segment only. Segment 0 is padding: no other segment sees it, and since
    every position sees at least itself no softmax is over nothing, which would be NaN.
    """
    mask_B1TT = (segments_BT[:, :, None] == segments_BT[:, None, :]).unsqueeze(1)
    if causal:
        length = segments_BT.shape[1]
        mask_B1TT = (
            mask_B1TT
            & torch.ones(length, length, dtype=torch.bool, device=segments_BT.device).tril()
        )
    return mask_B1TT
