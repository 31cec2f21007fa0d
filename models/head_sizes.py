"""Heads that are not all of one size: other sizes in other layers, or within one layer.

The paper leaves this to future work (section 5). A head size is a number for all heads, or a list
with an entry for each layer: a number for its heads, or a list with one for each of its heads.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from models.attention.multi_head import MultiHeadAttention

Sizes = int | Sequence[int]
HeadSize = int | Sequence[Sizes]


def sizes_by_layer(head_size: HeadSize, layers: int) -> list[Sizes]:
    """Return the sizes of each layer; ValueError where a list has another number of entries."""
    sizes: list[Sizes] = list([head_size] * layers if isinstance(head_size, int) else head_size)
    if len(sizes) != layers:
        raise ValueError(f"{len(sizes)} head sizes for {layers} layers")
    return sizes


def distinct_sizes(head_size: HeadSize) -> list[int]:
    """Return the sizes that there are, in order."""
    entries = [head_size] if isinstance(head_size, int) else head_size
    return sorted({n for entry in entries for n in ([entry] if isinstance(entry, int) else entry)})


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
    """Yield the attention of one layer after the other, each built when it is asked for.

    (What is built in between, such as the layer's feed-forward, draws its weights in between.)
    """
    for sizes in sizes_by_layer(head_size, layers):
        if isinstance(sizes, int):
            yield attention(embedding_size, heads, sizes, **options)
        elif len(sizes) != heads:
            raise ValueError(f"{len(sizes)} head sizes for {heads} heads")
        else:
            yield UnevenAttention(attention, embedding_size, sizes, **options)


def heads_by_layer(
    parts: Sequence[Tensor], layers: int, heads: int, head_size: HeadSize, dim: int = 0
) -> list[Tensor]:
    """Return what was measured of all heads of each layer, in the order of `head_size`.

    `parts` are what each attention computed, one after the other; axis `dim` has its heads. A layer
    whose heads have several sizes computes one for each size, the smallest first. A variant may
    compute several maps for a head, as many in each layer; those of a layer stand in the order in
    which they were computed. Nothing is returned where parts do not add up to `layers`.
    """
    found: list[Tensor] = []
    maps = sum(part.shape[dim] for part in parts) // layers
    for part in parts:
        if found and found[-1].shape[dim] < maps:
            found[-1] = torch.cat((found[-1], part), dim)
        else:
            found.append(part)
    if len(found) != layers or any(one.shape[dim] != maps for one in found):
        return []
    if not isinstance(head_size, int) and maps == heads:
        for place, sizes in enumerate(head_size):
            if not isinstance(sizes, int):  # the place of each head among those in order of size
                order_H = torch.tensor(sizes).argsort(stable=True).argsort().to(parts[0].device)
                found[place] = found[place].index_select(dim, order_H)
    return found


def cached_numbers(layers: Iterable[Any]) -> int | None:
    """Return how many numbers decoding keeps of a position in these attention layers together.

    Their `cached_numbers` say so; None if one does not.
    """
    numbers: list[Any] = [getattr(layer, "cached_numbers", None) for layer in layers]
    return None if None in numbers else sum(numbers)


class UnevenAttention(nn.Module):
    """A layer whose heads have several sizes: an attention of any variant for each size.

    The output of concatenated heads is the sum of what groups of them put out, since the projection
    V_o (the paper's eq. 9) has columns of its own for each head.
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
        multi_head = [group for group in self.groups if isinstance(group, MultiHeadAttention)]
        if all(group.key_value_heads == group.heads for group in multi_head):
            for group in multi_head:
                _draw_as_part(group, sum(sizes))
        self.cached_numbers = cached_numbers(self.groups)

    def forward(self, x_BTD: Tensor, mask_B1TT: Tensor | None = None, **rotation: Any) -> Tensor:
        """Return x_BTD; in the mask (query, key) is True where a query may attend to a key."""
        first, *others = self.groups
        output_BTD: Tensor = first(x_BTD, mask_B1TT, **rotation)
        for group in others:
            output_BTD = output_BTD + group(x_BTD, mask_B1TT, **rotation)
        return output_BTD


@torch.no_grad()
def _draw_as_part(group: MultiHeadAttention, width: int) -> None:
    """Give heads the variance that they have in a layer of this width, with heads of any size.

    Glorot's variance is 2 / (embedding_size + width), and each group was drawn by its own width.
    Weights of other variants, and of heads that share keys, stay as they were drawn.
    """
    embedding_size, own = group.qkv.in_features, group.output.in_features
    share = math.sqrt((embedding_size + own) / (embedding_size + width))
    group.qkv.weight *= share
    group.output.weight *= share
