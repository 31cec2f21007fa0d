"""Rotary position encoding (RoFormer, Su et al. 2021).

It rotates queries and keys by angles that grow with their position. A logit then depends on the
distance between query and key. As in Hugging Face's `transformers`, dimension i of the first half
of the rotated dimensions forms a pair with dimension i of the second half.
Shapes: B batch, T positions, H heads, P head_size, R rotated dimensions of a head.
"""

from collections.abc import Mapping

import torch
from torch import Tensor


class Rotation:
    """The rotation of one batch's queries and keys, for each head size.

    A decoder makes it once per batch, from positions that restart with each segment. The attention
    of every layer calls it.
    """

    def __init__(
        self, positions_BT: Tensor, turned: Mapping[int, int], base: float
    ) -> None:
        """Compute the sines and cosines.

        Args:
            turned: R for each head size. The first R dimensions of a head are rotated. R must be
                even.
            base: the base of the angles. The angle of pair i at position t is t base^(-2 i / R).
        """
        self._turns = {
            size: _turn(positions_BT, count, base) for size, count in turned.items()
        }

    def __call__(self, x_BTHP: Tensor, head_size: int) -> Tensor:
        """Return rotated queries or keys. P may exceed `head_size`, due to padding for a GPU."""
        cos_BT1R, sin_BT1R = self._turns[head_size]
        count = cos_BT1R.shape[-1]
        x_BTHR, rest = x_BTHP[..., :count], x_BTHP[..., count:]
        swapped_BTHR = x_BTHR.roll(count // 2, -1)
        turned_BTHR = torch.addcmul(x_BTHR * cos_BT1R, swapped_BTHR, sin_BT1R)
        turned_BTHR = turned_BTHR.to(x_BTHP.dtype)
        return torch.cat((turned_BTHR, rest), -1) if rest.shape[-1] else turned_BTHR


def _turn(positions_BT: Tensor, count: int, base: float) -> tuple[Tensor, Tensor]:
    """Return cos_BT1R and sin_BT1R. The sine is negated in the first half of R."""
    if count % 2:
        raise ValueError(
            f"rotary position encoding needs an even number of dimensions, not {count}"
        )
    exponents = torch.arange(0, count, 2, device=positions_BT.device).float() / count
    angles = positions_BT[:, :, None, None] * (1.0 / base**exponents)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)
