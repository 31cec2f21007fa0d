"""What a run takes over from its parent: its final weights, in the form that its own model has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from models.attention.collaborative import CollaborativeAttention
from models.attention.multi_head import MultiHeadAttention
from models.factorise import factorise
from sweeper.store.errors import UserError, wrong
from sweeper.store.runs import Run
from tasks.training import checkpoint

WEIGHTS = "weights.ckpt"


def final_weights(run: Run, key: str) -> dict[str, Tensor]:
    """Return the final weights of a finished run, verified; `key` is where it was named.

    Raises:
        UserError: that run is not finished, or its weights are not what it published.
    """
    path, digest = final_checkpoint(run, key)
    try:
        checkpoint.verify(path, run.id)
    except checkpoint.Damaged as error:
        expected = f"a run whose final weights are whole, but {error}"
        raise wrong(key, run.id, expected, "train it again") from error
    weights = checkpoint.load(path)
    if checkpoint.weights_digest(weights) != digest:
        raise wrong(key, run.id, "the weights that it published", "train it again")
    return weights


def final_checkpoint(run: Run, key: str) -> tuple[Path, str]:
    """Return where the final weights of a finished run lie, and their digest; UserError if not."""
    result = run.result()
    if result is None:
        raise wrong(key, run.id, "a finished run of this outputs folder", "train it first")
    return run.attempt(result["attempt"]).checkpoint_dir / WEIGHTS, result["weights_sha256"]


def adapted(model: nn.Module, weights: Mapping[str, Tensor], heads: int) -> dict[str, Tensor]:
    """Return the weights with multi-head attention re-parametrised where the model's is shared.

    Of full shared size the model computes what its parent did; of a smaller one, what the nearest
    factors of the query-key products do (`models.factorise`). All else stays as it is. `heads` is
    how many the parent has.

    Raises:
        UserError: the heads differ, or tensorly is needed and not installed.
    """
    found = dict(weights)
    for name, layer in model.named_modules():
        given = {key: found[f"{name}.{key}"] for key in _KEYS if f"{name}.{key}" in found}
        if isinstance(layer, CollaborativeAttention) and "qkv.weight" in given:
            for key in given:
                del found[f"{name}.{key}"]
            made = _reparametrised(_multi_head(layer, given, heads), layer.mixing.shape[1])
            found |= {f"{name}.{key}": value for key, value in made.state_dict().items()}
    return found


_KEYS = ("qkv.weight", "qkv.bias", "output.weight", "output.bias")


def _multi_head(
    like: CollaborativeAttention, weights: Mapping[str, Tensor], heads: int
) -> MultiHeadAttention:
    """Return the multi-head attention that has these weights, of the heads of another variant."""
    stacked, embedding_size = weights["qkv.weight"], like.query.in_features
    if (like.heads, 3 * like.heads * like.head_size) != (heads, len(stacked)):
        expected = f"the heads of the parent, {heads} of {len(stacked) // (3 * heads)}"
        own = f"{like.heads} of {like.head_size}"
        raise wrong("model.heads", own, expected, "copy its model section")
    bias = "qkv.bias" in weights
    made = MultiHeadAttention(embedding_size, like.heads, like.head_size, bias=bias).to(stacked)
    made.load_state_dict(dict(weights))
    return made


@torch.no_grad()
def _reparametrised(attention: MultiHeadAttention, size: int) -> CollaborativeAttention:
    query_WD, key_WD, _ = attention.qkv.weight.chunk(3)
    heads = (attention.heads, attention.head_size)
    query_HPD, key_HPD = (weight.cpu().unflatten(0, heads) for weight in (query_WD, key_WD))
    try:
        factors = factorise(query_HPD, key_HPD, size)
    except ImportError:
        raise UserError(
            "re-parametrising a trained run needs tensorly, which is not installed; "
            'install it with: pip install "tensorly>=0.9".'
        ) from None
    return CollaborativeAttention.from_factors(attention, *factors)
