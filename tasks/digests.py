"""Digests of prepared data and of the code that prepared them, which show later changes."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sweeper.store.errors import UserError
from sweeper.store.files import (
    FORMAT,
    digest_of_file,
    make_directory,
    publish_json,
    publish_with_checksum,
    read_object,
    read_versioned,
)
from sweeper.store.identity import digest_of
from sweeper.store.liveness import identity

DIGESTS = "digests.json"
# The subfolder with generated text. It needs no digests, because only the preparation reads it.
SOURCE = "sample"
# The digests of code are stored by Python version. They are hashes of syntax trees, which differ
# between versions.
PYTHON = ".".join(platform.python_version_tuple()[:2])


def write_digests(folder: Path, code: Mapping[str, str]) -> None:
    """Write digests.json, with a digest of every file in `folder` and of the code that made them.

    Args:
        folder: the folder of prepared data.
        code: the digests of source files, by path.

    Raises:
        OSError: a file of `folder` is a link or a pipe.
    """
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        is_file = path.is_symlink() or not path.is_dir()
        if is_file and name.parts[0] != SOURCE and not name.name.startswith("."):
            files[name.as_posix()] = digest_of_file(path)
    publish_with_checksum(
        folder / DIGESTS,
        {
            "format": FORMAT,
            "of": folder.name,
            "files": files,
            "code": {PYTHON: dict(code)},
        },
    )


def prepared_by(folder: Path) -> dict[str, str]:
    """Return the digests of the source files that prepared a folder, by path.

    Return {} in two cases:

    - Another version of Python prepared the folder, so digests cannot be compared.
    - An older version of Headroom prepared the folder. It stored no digests of source files.
    """
    found = read_versioned(folder / DIGESTS, keys=("of", "files")) or {}
    digests: dict[str, str] = found.get("code", {}).get(PYTHON, {})
    return digests


def check_digests(folder: Path, outputs: Path, *, again: bool = False) -> str:
    """Check that the files of a prepared folder are unchanged. Return a digest of the folder.

    After each boot, a machine reads every file once, and saves its fingerprint (inode, size and
    times). Later calls read only files whose fingerprints have changed.

    Args:
        folder: the folder of prepared data.
        outputs: the outputs folder, whose cache contains the fingerprints.
        again: whether to read every file again.

    Raises:
        UserError: a file has changed since it was prepared.
    """
    found = read_versioned(folder / DIGESTS, keys=("of", "files"))
    if found is None or found["of"] != folder.name:
        raise _changed(folder / DIGESTS, folder)

    verified = outputs / "cache" / "verified" / str(identity()["boot"])
    noted = verified / f"{folder.name}.json"
    before = {} if again else read_object(noted) or {}
    now = {}

    for name, digest in found["files"].items():
        try:
            now[name] = [digest, *_fingerprint(folder / name)]
            same = (
                before.get(name) == now[name] or digest_of_file(folder / name) == digest
            )
        except OSError:
            same = False
        if not same:
            raise _changed(folder / name, folder)

    if now != before:
        with suppress(OSError):  # the outputs folder may be read-only
            make_directory(noted.parent)
            publish_json(noted, now)
    return digest_of(found["files"])


def _fingerprint(path: Path) -> list[int]:
    """Return a fingerprint of a file: its inode, size and times."""
    stat = path.stat(follow_symlinks=False)
    return [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _changed(path: Path, folder: Path) -> UserError:
    return UserError(
        f"{path} has changed since it was prepared; delete {folder}. The next sweep prepares the "
        "data again."
    )
