"""Checkpoints with a sidecar of their digest, verified before use, and weights that runs inherit.

Lightning's writer stages in the folder of temporary files, copies, and never syncs: a kill or a
full disk there destroys the previous checkpoint too.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any, cast

import torch
from torch import Tensor, nn

from models.attention.collaborative import CollaborativeAttention
from models.attention.multi_head import MultiHeadAttention
from models.factorise import factorise
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.files import digest_of_file, new_file, opened, publish_json, read_json, write_all
from sweeper.store.runs import Run


class Damaged(Exception):
    """A checkpoint that must not be used; the message says why."""


def sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def save(value: Mapping[str, Any], path: Path, run: str) -> None:
    """Write a checkpoint of `run` in one step; after an OSError the file is as it was before."""
    with new_file(path) as descriptor:
        writer = _Writer(descriptor)
        try:
            torch.save(dict(value), cast(IO[bytes], writer))
        except RuntimeError:
            # torch reports a failed write by the position it did not reach.
            if writer.error is not None:
                raise writer.error from None
            raise
        publish_json(sidecar(path), {"run": run, "sha256": writer.digest.hexdigest()})


def verify(path: Path, run: str) -> None:
    """Raise Damaged unless the file is what was written, by this run."""
    try:
        stated = read_json(sidecar(path))
        digest = digest_of_file(path)
    except (OSError, UserError) as error:
        raise Damaged(f"it cannot be read: {error}") from error
    if not isinstance(stated, dict):
        raise Damaged("its digest is missing")
    if stated.get("run") != run:
        raise Damaged("it belongs to another run")
    if stated.get("sha256") != digest:
        raise Damaged("its content is not what was written")


def load(path: Path) -> dict[str, Any]:
    """Return a verified checkpoint, on the CPU. Only tensors and plain values are unpickled.

    Raises:
        UserError: the file holds anything else, which could run code.
    """
    try:
        with opened(path) as file:
            value: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except (UnpicklingError, EOFError, RuntimeError, ValueError):  # torch advises to load it
        raise UserError(
            f"{path} is no checkpoint of tensors and plain values, and is not loaded, since it "
            "could run code; remove it and train the run again."
        ) from None
    return value


def remove(path: Path) -> None:
    """Delete a checkpoint and its sidecar, the file first: a sidecar alone is harmless."""
    path.unlink(missing_ok=True)
    sidecar(path).unlink(missing_ok=True)


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """Return the sha256 over names, types, shapes and bytes of all tensors, in order of name."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()


class _Writer:
    """A file for torch.save that digests its content and keeps the error of a failed write."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.digest = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        content = memoryview(data).cast("B")
        try:
            write_all(self._descriptor, content)  # type: ignore[arg-type]
        except OSError as error:
            self.error = error
            raise
        self.digest.update(content)
        return len(content)

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    def fileno(self) -> int:
        return self._descriptor


WEIGHTS = "weights.ckpt"


def final_weights(run: Run, key: str) -> dict[str, Tensor]:
    """Return the verified final weights of a finished run; `key` names it in a UserError."""
    path, digest = final_checkpoint(run, key)
    try:
        verify(path, run.id)
    except Damaged as error:
        expected = f"a run whose final weights are whole, but {error}"
        raise invalid_value(key, run.id, expected, "train it again") from error
    weights = load(path)
    if weights_digest(weights) != digest:
        raise invalid_value(key, run.id, "the weights that it published", "train it again")
    return weights


def final_checkpoint(run: Run, key: str) -> tuple[Path, str]:
    """Return the file of a finished run's final weights, and their digest; UserError if none."""
    result = run.result()
    if result is None:
        raise invalid_value(key, run.id, "a finished run of this outputs folder", "train it first")
    return run.attempt(result["attempt"]).checkpoint_dir / WEIGHTS, result["weights_sha256"]


def adapted(model: nn.Module, weights: Mapping[str, Tensor], heads: int) -> dict[str, Tensor]:
    """Return the weights with multi-head attention re-parametrised where the model shares keys.

    With a shared size below the full one, factors are the nearest (`models.factorise`). `heads`: of
    the parent; UserError if the model has others.
    """
    found = dict(weights)
    for name, layer in model.named_modules():
        if not isinstance(layer, CollaborativeAttention) or f"{name}.qkv.weight" not in found:
            continue
        if f"{name}.norm.query" in found:
            expected = "a parent without normalised queries and keys, which have no shared form"
            remedy = "train one with model.attention.qk_norm=false"
            raise invalid_value("model.attention.name", "collaborative", expected, remedy)
        keys = ("qkv.weight", "qkv.bias", "output.weight", "output.bias")
        given = {key: found.pop(f"{name}.{key}") for key in keys if f"{name}.{key}" in found}
        stacked = given["qkv.weight"]
        if (layer.heads, 3 * layer.heads * layer.head_size) != (heads, len(stacked)):
            expected = f"the heads of the parent, {heads} of {len(stacked) // (3 * heads)}"
            own = f"{layer.heads} of {layer.head_size}"
            raise invalid_value("model.heads", own, expected, "copy its model section")
        sizes = (layer.query.in_features, layer.heads, layer.head_size)
        parent = MultiHeadAttention(*sizes, bias="qkv.bias" in given).to(stacked)
        parent.load_state_dict(given)
        made = reparametrised(parent, layer.mixing.shape[1])
        found |= {f"{name}.{key}": value for key, value in made.state_dict().items()}
    return found


@torch.no_grad()
def reparametrised(attention: MultiHeadAttention, size: int) -> CollaborativeAttention:
    """Return collaborative attention with a shared size; UserError without tensorly."""
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
