"""Checkpoints that are whole, belong to their run, and are known to be both before they are used.

Each lies beside a sidecar with its digest. Lightning's own writer stages in the folder of temporary
files, copies, and never syncs: a kill or a full disk there destroys the previous checkpoint too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch import Tensor

from sweeper.store.archives.reading import opened
from sweeper.store.errors import UserError
from sweeper.store.files import digest_of_file, new_file, publish_json, read_json, write_all


class Damaged(Exception):
    """A checkpoint that must not be used; the message says why."""


def sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def save(value: Mapping[str, Any], path: Path, run: str) -> None:
    """Write a checkpoint of `run` in one step, on the file system it will live on.

    Raises:
        OSError: it could not be written (a full disk); whatever was at `path` is still there.
    """
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
    """Return a verified checkpoint, on the CPU. Only tensors and plain values are unpickled."""
    with opened(path) as file:
        value: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    return value


def remove(path: Path) -> None:
    """Delete a checkpoint and its sidecar, the file first: a sidecar alone harms nobody."""
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
    """A file for torch.save that digests what it writes and remembers why a write failed."""

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
        """Nothing is held back."""

    def fileno(self) -> int:
        return self._descriptor
