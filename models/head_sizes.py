"""Support for heads of different sizes, between layers or within a layer.

The paper leaves such heads to future work (section 5). The config's `model.head_size` is one number
for all heads, or a list with an entry for each layer. An entry is one number for all heads of the
layer, or a list with a number for each head. For example, [8, [4, 12]] is for two layers with two
heads each.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from models.attention.decoupled import DecoupledAttention
from models.attention.multi_head import MultiHeadAttention

Sizes = int | Sequence[int]
HeadSize = int | Sequence[Sizes]


def sizes_by_layer(head_size: HeadSize, layers: int) -> list[Sizes]:
    """Return the entry of `head_size` for each layer. A single number applies to every layer.

    Raises:
        ValueError: a list does not have `layers` entries.
    """
    sizes: list[Sizes] = list(
        [head_size] * layers if isinstance(head_size, int) else head_size
    )
    if len(sizes) != layers:
        raise ValueError(
            f"head_size has {len(sizes)} entries; give one for each of {layers} layers"
        )
    return sizes


def distinct_sizes(head_size: HeadSize) -> list[int]:
    """Return the different sizes of all heads, in ascending order."""
    entries = [head_size] if isinstance(head_size, int) else head_size
    by_layer = ([entry] if isinstance(entry, int) else entry for entry in entries)
    return sorted({size for sizes in by_layer for size in sizes})


def total_width(head_size: HeadSize, heads: int, layers: int) -> int:
    """Return the sum of the sizes of all heads of all layers."""
    sizes = sizes_by_layer(head_size, layers)
    return sum(heads * size if isinstance(size, int) else sum(size) for size in sizes)


def attention_layers(
    attention: Callable[..., nn.Module],
    layers: int,
    embedding_size: int,
    heads: int,
    head_size: HeadSize,
    **options: Any,
) -> Iterator[nn.Module]:
    """Yield the attention module of each layer.

    Each module is built only when the caller takes it. So the caller can build the rest of a layer
    before the next attention, and random weights are drawn layer by layer.

    Args:
        attention: an attention variant (see `AttentionBuilder` in models/transformer.py).
        options: further arguments of the variant.
    """
    for sizes in sizes_by_layer(head_size, layers):
        if isinstance(sizes, int):
            yield attention(embedding_size, heads, sizes, **options)
        elif len(sizes) != heads:
            raise ValueError(
                f"a layer's head_size has {len(sizes)} entries; give one for each of {heads} heads"
            )
        else:
            yield UnevenAttention(attention, embedding_size, sizes, **options)


def cached_numbers(layers: Iterable[Any]) -> int | None:
    """Return the number of elements in the KV cache of all layers, per position.

    Return None if a layer has no attribute `cached_numbers`.
    """
    numbers: list[Any] = [getattr(layer, "cached_numbers", None) for layer in layers]
    return None if None in numbers else sum(numbers)


class UnevenAttention(nn.Module):
    """The attention of a layer whose heads differ in size.

    The layer has one attention module for each size, and adds up their outputs. The sum equals one
    projection of all concatenated heads, because V_o (the paper's eq. 9) has separate columns for
    each head. Heads of different sizes share no weights. So this class does not fit variants with
    `heads_share = True`, whose heads share weights.
    """

    def __init__(
        self,
        attention: Callable[..., nn.Module],
        embedding_size: int,
        sizes: Sequence[int],
        **options: Any,
    ) -> None:
        super().__init__()
        self.groups = nn.ModuleList(
            attention(embedding_size, heads, size, **options)
            for size, heads in sorted(Counter(sizes).items())
        )
        _draw_together(self.groups, embedding_size)
        self.cached_numbers = cached_numbers(self.groups)

    def forward(
        self, x_BTD: Tensor, mask_B1TT: Tensor | None = None, **rotation: Any
    ) -> Tensor:
        """Return the output, of shape (B, T, D).

        The mask is True where a query (axis 2) may attend to a key (axis 3).
        """
        first, *others = self.groups
        output_BTD: Tensor = first(x_BTD, mask_B1TT, **rotation)
        for group in others:
            output_BTD = output_BTD + group(x_BTD, mask_B1TT, **rotation)
        return output_BTD


@torch.no_grad()
def _draw_together(groups: Iterable[nn.Module], embedding_size: int) -> None:
    """Rescale the initial weights of the groups, as if one matrix had been drawn for all heads.

    Glorot's variance is 2 / (embedding_size + width). Each group was drawn with the width of its
    own heads. Afterwards, its weights have the variance for the width of all heads of the layer.
    """
    for matrices in zip(*map(_glorot_matrices, groups), strict=True):
        total = sum(width for _, width in matrices)
        for weight, width in matrices:
            weight *= math.sqrt((embedding_size + width) / (embedding_size + total))


def _glorot_matrices(group: nn.Module) -> list[tuple[Tensor, int]]:
    """Return pairs of a weight and the width that sets its Glorot variance.

    With `glorot="head"`, omit queries and keys, because their variance does not depend on a width.
    For other variants than `multi_head` and `decoupled`, return an empty list, so that their
    weights stay as they were drawn.
    """
    if isinstance(group, MultiHeadAttention):
        width = group.output.in_features
        first = 2 * width if group.glorot == "head" else 0
        return [(group.qkv.weight[first:], width), (group.output.weight, width)]
    if isinstance(group, DecoupledAttention):
        width, values = group.heads * group.head_size, group.output.in_features
        return [
            (group.query_key.weight, width),
            (group.value.weight, values),
            (group.output.weight, values),
        ]
    return []
