"""Checkpoints with digests, and the final weights of runs.

This module does not use Lightning's writer, which copies from a temporary folder and never calls
fsync. With Lightning's writer, a kill or a full disk could destroy the previous checkpoint, too.
"""

import hashlib
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from sweeper.store.errors import UserError, as_typed, invalid_value
from sweeper.store.files import (
    digest_of_file,
    new_file,
    opened,
    publish_json,
    read_json,
    write_all,
)
from sweeper.store.runs import Run


class Damaged(Exception):
    """The error raised for a checkpoint that must not be used. The message says why."""


def sidecar(path: Path) -> Path:
    """Return the path of the file that holds a checkpoint's digest."""
    return path.with_name(path.name + ".sha256")


def save(value: Mapping[str, Any], path: Path, run: str) -> None:
    """Write a checkpoint and its digest. `run` is the id of the run.

    The file is replaced atomically. If writing raises OSError, the previous file at `path` remains.
    """
    # Let torch.save write to memory, because it would hide the OSError of a full disk.
    buffer = io.BytesIO()
    torch.save(dict(value), buffer)
    content = buffer.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    with new_file(path) as descriptor:
        write_all(descriptor, content)
        publish_json(sidecar(path), {"run": run, "sha256": digest})


def verify(path: Path, run: str) -> None:
    """Raise Damaged if a checkpoint is unreadable, has changed, or belongs to another run.

    `run` is the id of the expected run.
    """
    try:
        stated = read_json(sidecar(path))
        found = {"run": run, "sha256": digest_of_file(path)}
    except (OSError, UserError) as error:
        raise Damaged(f"the file cannot be read: {error}") from error
    if stated != found:
        raise Damaged("it has changed since it was written, or belongs to another run")


def load(path: Path) -> dict[str, Any]:
    """Return the content of a verified checkpoint, with its tensors on the CPU.

    Raises:
        UserError: the file contains other objects than tensors and plain values. Loading such
            objects could run code.
    """
    try:
        with opened(path) as file:
            value: dict[str, Any] = torch.load(
                file, map_location="cpu", weights_only=True
            )
    except (UnpicklingError, EOFError, RuntimeError, ValueError):
        # Hide torch's own message, which advises to load the file without this protection.
        raise UserError(
            f"{path} cannot be loaded: it is damaged, or has other objects than tensors and plain "
            "values, which could run code. Delete it and train the run again."
        ) from None
    return value


def remove(path: Path) -> None:
    """Delete a checkpoint and then its digest. A digest without a checkpoint does no harm."""
    path.unlink(missing_ok=True)
    sidecar(path).unlink(missing_ok=True)


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """Return a sha256 over the names, types, shapes and bytes of all tensors, sorted by name."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(
            tensor.view(-1).view(torch.uint8).numpy().data if tensor.numel() else b""
        )
    return digest.hexdigest()


Shape = tuple[int, ...] | None


def differing(
    own: Mapping[str, Tensor], others: Mapping[str, Tensor]
) -> Iterator[tuple[str, Shape, Shape]]:
    """Yield (name, shape in `own`, shape in `others`) for each tensor whose two shapes differ.

    A shape is None if the tensor is missing in that set.
    """
    for name in {**own, **others}:
        first, second = (
            tuple(tensors[name].shape) if name in tensors else None
            for tensors in (own, others)
        )
        if first != second:
            yield name, first, second


WEIGHTS = "weights.ckpt"


def final_weights(run: Run, key: str) -> dict[str, Tensor]:
    """Check that the final weights of a finished run are intact, and return them.

    Args:
        key: the config key or command-line argument that names the run. Error messages name it.

    Raises:
        UserError: the run is not finished, or its weights are damaged.
    """
    path, digest = final_checkpoint(run, key)
    try:
        verify(path, run.id)
        weights = load(path)
        if weights_digest(weights) != digest:
            raise Damaged("the digest of its weights differs from that in result.json")
    except Damaged as error:
        expected = f"a run with intact final weights ({WEIGHTS}: {error})"
        remedy = f"delete the run with `{as_typed('forget')} {run.id}`, and repeat the command"
        raise invalid_value(key, run.id, expected, remedy) from error
    return weights


def final_checkpoint(run: Run, key: str) -> tuple[Path, str]:
    """Return the path of a run's final weights, and their digest.

    Raises:
        UserError: the run is not finished.
    """
    result = run.result()
    if result is None:
        raise invalid_value(
            key, run.id, "a finished run in this outputs folder", "train it first"
        )
    folder = run.attempt(result.attempt).checkpoint_dir
    return folder / WEIGHTS, result.weights_sha256
