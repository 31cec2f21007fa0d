"""Rotary position encoding (RoFormer, Su et al. 2021).

It rotates queries and keys by angles proportional to their position. The logit of a rotated query
and key depends on the distance between them, but not on their absolute positions. A rotation acts
on pairs of dimensions. As in Hugging Face's `transformers`, dimension i forms a pair with dimension
i + R / 2.
Shapes: B batch, T positions, H heads, P head_size, R rotated dimensions of a head.
"""

from collections.abc import Mapping

import torch
from torch import Tensor


class Rotation:
    """The rotation of the queries and keys of one batch.

    A decoder creates one rotation per batch and passes it to the attention of every layer.
    """

    def __init__(
        self, positions_BT: Tensor, turned: Mapping[int, int], base: float
    ) -> None:
        """Compute the sines and cosines.

        Args:
            positions_BT: the positions, which restart with each segment.
            turned: a mapping from each head size to R, the number of dimensions to rotate. R must
                be even. The first R dimensions of a head are rotated.
            base: the base of the angles. The angle of pair i at position t is t base^(-2 i / R).
        """
        self._turns = {
            size: _turn(positions_BT, count, base) for size, count in turned.items()
        }

    def __call__(self, x_BTHP: Tensor, head_size: int) -> Tensor:
        """Rotate queries or keys.

        `head_size` is the size of the heads. It must be a key of `turned` in the constructor. P may
        be larger than `head_size`, because heads are padded on a GPU.
        """
        cos_BT1R, sin_BT1R = self._turns[head_size]
        count = cos_BT1R.shape[-1]
        x_BTHR, rest = x_BTHP[..., :count], x_BTHP[..., count:]
        swapped_BTHR = x_BTHR.roll(count // 2, -1)
        turned_BTHR = torch.addcmul(x_BTHR * cos_BT1R, swapped_BTHR, sin_BT1R)
        turned_BTHR = turned_BTHR.to(x_BTHP.dtype)
        return torch.cat((turned_BTHR, rest), -1) if rest.shape[-1] else turned_BTHR


def _turn(positions_BT: Tensor, count: int, base: float) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of all angles, cos_BT1R and sin_BT1R.

    Both dimensions of a pair have the same angle. The sine of the first dimension is negated, so
    that the rotated pair is x * cos + swapped x * sin.
    """
    if count % 2:
        raise ValueError(
            f"rotary position encoding needs an even number of dimensions, not {count}"
        )
    exponents = torch.arange(0, count, 2, device=positions_BT.device).float() / count
    angles = positions_BT[:, :, None, None] * (1.0 / base**exponents)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)
