"""The conversion of a parent's weights for a model with collaborative attention."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from models.attention.collaborative import CollaborativeAttention
from models.attention.multi_head import MultiHeadAttention
from models.factorise import factorise
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.numbers import plural


def adapted(
    model: nn.Module, weights: Mapping[str, Tensor], heads: int
) -> dict[str, Tensor]:
    """Convert the weights of a run's parent, so that `model` can load them. Return the new weights.

    If a layer has collaborative attention in `model` and multi-head attention in the parent, the
    parent's query and key weights are factorised (`models.factorise`). The factors are exact if
    the size of the shared queries and keys is at least heads * head size. Otherwise they may be
    approximate.

    Args:
        weights: the parent's weights.
        heads: the parent's number of heads.

    Raises:
        UserError: the number or size of the model's heads differs from the parent's, or the parent
            normalises its queries and keys.
    """
    found = dict(weights)
    for name, layer in model.named_modules():
        shared = isinstance(layer, CollaborativeAttention)
        if not shared or f"{name}.qkv.weight" not in weights:
            continue
        own = [key for key in weights if key.startswith(f"{name}.")]
        given = {key.removeprefix(f"{name}."): found.pop(key) for key in own}
        parent = _parent(layer, given, heads)
        made = reparametrised(parent, layer.mixing.shape[1])
        _draw_unused(made, layer)
        found |= {f"{name}.{key}": value for key, value in made.state_dict().items()}
    return found


@torch.no_grad()
def _draw_unused(made: CollaborativeAttention, fresh: CollaborativeAttention) -> None:
    """Give unused coordinates the query and mixing weights of a newly initialised layer.

    The parent's factors may leave some shared coordinates unused. All query, key and mixing weights
    of such a coordinate are zero, so their gradients would also be zero, and the coordinate would
    never learn. Its key weights stay zero, so that the layer's outputs do not change.

    Args:
        made: the layer with the parent's factors. It is changed in place.
        fresh: the newly initialised layer.
    """
    unused_S = ~(made.query.weight.any(dim=1) | made.key.weight.any(dim=1))
    made.query.weight[unused_S] = fresh.query.weight[unused_S].to(made.query.weight)
    made.mixing[:, unused_S] = fresh.mixing[:, unused_S].to(made.mixing)


def _parent(
    layer: CollaborativeAttention, weights: Mapping[str, Tensor], heads: int
) -> MultiHeadAttention:
    """Return a multi-head attention layer with the parent's `weights` and number of `heads`.

    Raises:
        UserError: the collaborative `layer` has another number or size of heads than the parent, or
            the parent normalises its queries and keys.
    """
    if "norm.query" in weights:
        expected = "a parent with model.attention.qk_norm=false, since collaborative attention "
        expected += "cannot express normalised queries and keys"
        remedy = "train a parent without qk_norm"
        raise invalid_value("model.attention.name", "collaborative", expected, remedy)

    size = len(weights["qkv.weight"]) // (3 * heads)
    if (layer.heads, layer.head_size) != (heads, size):
        own = f"{layer.heads} of size {layer.head_size}"
        expected = f"the parent's {plural(heads, 'head')} of size {size}, not {own}"
        remedy = f"set model.heads={heads} and model.head_size={size}"
        raise invalid_value("model.heads", layer.heads, expected, remedy)

    width, biased = layer.query.in_features, "qkv.bias" in weights
    parent = MultiHeadAttention(width, heads, size, bias=biased)
    parent.to(weights["qkv.weight"]).load_state_dict(weights)
    return parent


@torch.no_grad()
def reparametrised(attention: MultiHeadAttention, size: int) -> CollaborativeAttention:
    """Return `attention` as collaborative attention, with shared queries and keys of size `size`.

    Raises:
        UserError: tensorly is not installed.
    """
    query_WD, key_WD, _ = attention.qkv.weight.chunk(3)
    heads = (attention.heads, attention.head_size)
    query_HPD, key_HPD = (
        weight.cpu().unflatten(0, heads) for weight in (query_WD, key_WD)
    )
    try:
        factors = factorise(query_HPD, key_HPD, size)
    except ImportError:
        raise UserError(
            "inheriting collaborative attention from multi-head attention needs tensorly, which "
            'is not installed; run: pip install "tensorly>=0.9".'
        ) from None
    return CollaborativeAttention.from_factors(attention, *factors)
