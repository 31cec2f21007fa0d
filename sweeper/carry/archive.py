"""Files in one tar, with a manifest that says the digest of each: equal files, equal bytes."""

from __future__ import annotations

import hashlib
import io
import secrets
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import IO, Any

from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import (
    CHECKSUM,
    FORMAT,
    as_json,
    child,
    make_directory,
    read_versioned,
    with_checksum,
)

MANIFEST = "manifest.json"
MEGABYTE = 10**6

Content = Path | bytes
"""What a file holds: that of a file on disk, or these bytes."""


def write_archive(
    path: Path, files: Mapping[str, Content], about: Mapping[str, Any], max_mb: float | None
) -> list[Path]:
    """Write `files` by their names, after a manifest that says `about`; returns what was written.

    All of it lies in a folder named like the archive. An archive that is larger than `max_mb`
    becomes parts, `<path>.001` and so on, to be joined by `cat`.
    """
    digests = {name: _digest(files[name]) for name in sorted(files)}
    text = as_json(with_checksum({"format": FORMAT, **about, "files": digests}))
    whole = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    make_directory(path.parent)
    try:
        with tarfile.open(whole, "w", format=tarfile.PAX_FORMAT) as archive:
            for name, content in {MANIFEST: text.encode(), **dict(sorted(files.items()))}.items():
                _add(archive, f"{path.name.partition('.')[0]}/{name}", content)
        if max_mb is None or whole.stat().st_size <= max_mb * MEGABYTE:
            whole.replace(path)
            return [path]
        return _parts(whole, path, int(max_mb * MEGABYTE))
    finally:
        whole.unlink(missing_ok=True)


def unpack(path: Path, folder: Path) -> dict[str, Any]:
    """Write the files of an archive below `folder`, verified; what its manifest says.

    Raises:
        UserError: it cannot be read, or holds what its manifest does not say.
    """
    try:
        with tarfile.open(path, "r:") as archive:
            members = iter(archive)
            top = next(members, None)
            if top is None or not top.isreg() or Path(top.name).name != MANIFEST:
                raise _unfit(path, f"it does not begin with a {MANIFEST}")
            _extract(archive, top, folder / MANIFEST)
            manifest = _manifest(path, folder / MANIFEST)
            missing = dict(manifest["files"])
            for member in members:
                name = member.name.partition("/")[2]
                if not member.isreg() or name not in missing:
                    raise _unfit(path, f"its manifest says nothing of {sanitize(member.name, 100)}")
                place = reduce(child, name.split("/"), folder)
                if _extract(archive, member, place) != missing.pop(name):
                    raise _unfit(path, f"{sanitize(name, 100)} is not what was written")
    except (tarfile.TarError, OSError) as error:
        raise _unfit(path, str(error)) from error
    if missing:
        raise _unfit(path, f"{sanitize(min(missing), 100)} is missing")
    return manifest


def _manifest(path: Path, place: Path) -> dict[str, Any]:
    """What the manifest of an archive says, once it lies there; to the letter as it was written."""
    try:
        manifest = read_versioned(place, keys=("kind", "files", CHECKSUM))
    except UserError as error:
        raise _unfit(path, str(error)) from error
    assert manifest is not None
    if place.read_text("utf-8") != as_json(with_checksum(manifest)):
        raise _unfit(path, f"{MANIFEST} is not what was written")
    return manifest


def _digest(content: Content) -> str:
    with _opened(content) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _opened(content: Content) -> IO[bytes]:
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")


def _add(archive: tarfile.TarFile, name: str, content: Content) -> None:
    """Add a file without what differs from machine to machine: owner, time, mode."""
    member = tarfile.TarInfo(name)
    member.size = len(content) if isinstance(content, bytes) else content.stat().st_size
    with _opened(content) as file:
        archive.addfile(member, file)


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> str:
    make_directory(place.parent)
    source = archive.extractfile(member)
    assert source is not None
    digest = hashlib.sha256()
    with source, place.open("xb") as target:
        while block := source.read(1 << 20):
            digest.update(block)
            target.write(block)
    return digest.hexdigest()


def _parts(whole: Path, path: Path, most: int) -> list[Path]:
    parts: list[Path] = []
    with whole.open("rb") as source:
        while block := source.read(most):
            parts.append(path.with_name(f"{path.name}.{len(parts) + 1:03d}"))
            parts[-1].write_bytes(block)
    with suppress(FileNotFoundError):  # of an earlier time, without a limit
        path.unlink()
    return parts


def _unfit(path: Path, reason: str) -> UserError:
    return UserError(f"{sanitize(path)} cannot be used: {reason}; bring it here again, whole.")
