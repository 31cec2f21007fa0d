"""Rotary positions: queries and keys are rotated by angles that grow with their position.

They are those of RoFormer (Su et al. 2021). A logit then depends on the distance between query and
key. As in Hugging Face transformers, number i of the first half of the rotated numbers forms a pair
with number i of the second half.
Shapes: B batch, T positions, H heads, P head_size, R numbers of a head that are rotated.
"""

from collections.abc import Mapping

import torch
from torch import Tensor


class Rotation:
    """The rotation of one batch, for each head size. Attention variants call it.

    A decoder makes it once for all layers, from positions that restart with each segment.
    """

    def __init__(
        self, positions_BT: Tensor, turned: Mapping[int, int], base: float
    ) -> None:
        """Compute the sines and cosines.

        Args:
            turned: for each head size, R, the number of a head's first numbers that are rotated. It
                must be even.
            base: with each position, the angle of pair i grows by base^(-2 i / R).
        """
        self._turns = {
            size: _turn(positions_BT, count, base) for size, count in turned.items()
        }

    def __call__(self, x_BTHP: Tensor, head_size: int) -> Tensor:
        """Return rotated queries or keys. P may exceed head_size by padding for a GPU."""
        cos_BT1R, sin_BT1R = self._turns[head_size]
        count = cos_BT1R.shape[-1]
        x_BTHR, rest = x_BTHP[..., :count], x_BTHP[..., count:]
        swapped_BTHR = x_BTHR.roll(count // 2, -1)
        turned_BTHR = torch.addcmul(x_BTHR * cos_BT1R, swapped_BTHR, sin_BT1R).to(
            x_BTHP.dtype
        )
        return torch.cat((turned_BTHR, rest), -1) if rest.shape[-1] else turned_BTHR


def _turn(positions_BT: Tensor, count: int, base: float) -> tuple[Tensor, Tensor]:
    """Return cos_BT1R and sin_BT1R. The sine is negated in the first half of R."""
    if count % 2:
        raise ValueError(
            f"a rotation needs an even number of rotated numbers, not {count}"
        )
    exponents = torch.arange(0, count, 2, device=positions_BT.device).float() / count
    angles = positions_BT[:, :, None, None] * (1.0 / base**exponents)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)
