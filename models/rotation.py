"""Rotary positions: queries and keys turned by angles that grow with their position.

From RoFormer (Su et al. 2021). A logit then depends on how far apart query and key are. As in
transformers, number i of the first half of what is turned makes a pair with number i of the second.
Shapes: B batch, T positions, H heads, P head_size, R numbers of a head that are turned.
"""

from collections.abc import Mapping

import torch
from torch import Tensor


class Rotation:
    """The turns of one batch, for heads of each size; attention variants call it.

    A decoder makes it once for all layers, from positions that restart with each segment.
    """

    def __init__(self, positions_BT: Tensor, turned: Mapping[int, int], base: float) -> None:
        """Compute the turns.

        Args:
            turned: by head size, how many of a head's first numbers are turned: an even number.
            base: pair i of R / 2 turns by base^(-2 i / R) with each position.
        """
        self._turns = {size: _turn(positions_BT, count, base) for size, count in turned.items()}

    def __call__(self, x_BTHP: Tensor, head_size: int) -> Tensor:
        """Return queries or keys turned; P may be head_size or, with zeros for a GPU, more."""
        cos_BT1R, sin_BT1R = self._turns[head_size]
        count = cos_BT1R.shape[-1]
        x_BTHR, rest = x_BTHP[..., :count], x_BTHP[..., count:]
        swapped_BTHR = x_BTHR.roll(count // 2, -1)
        turned_BTHR = torch.addcmul(x_BTHR * cos_BT1R, swapped_BTHR, sin_BT1R).to(x_BTHP.dtype)
        return torch.cat((turned_BTHR, rest), -1) if rest.shape[-1] else turned_BTHR


def _turn(positions_BT: Tensor, count: int, base: float) -> tuple[Tensor, Tensor]:
    """Return cos_BT1R and sin_BT1R, the sine negative for the first half."""
    if count % 2:
        raise ValueError(f"a rotation turns numbers in pairs, and {count} is odd")
    exponents = torch.arange(0, count, 2, device=positions_BT.device).float() / count
    angles = positions_BT[:, :, None, None] * (1.0 / base**exponents)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)
