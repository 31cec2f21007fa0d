"""An archive: a zip whose manifest says the digest of each file in it."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import zipfile
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from io import FileIO
from pathlib import Path

from sweeper.store.archives.reading import opened
from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import FORMAT, as_json, make_directory, new_file, with_checksum

MANIFEST = "manifest.json"
BELOW = "runs"
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, EOFError),
    *(KeyError, TypeError, ValueError, RecursionError),
)


class Archive:
    """One archive, read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self.path)

    @cached_property
    def _digests(self) -> dict[str, dict[str, str]]:
        """By run, the digest of each file; OSError where the archive cannot be read."""
        try:
            manifest = json.loads(self._zip.read(MANIFEST))
            whole = manifest["format"] == FORMAT and with_checksum(manifest) == manifest
            found: dict[str, dict[str, str]] = manifest["runs"]
        except _DAMAGE as error:
            raise self._damaged(f"it is no whole archive ({sanitize(error, 80)})") from error
        if not whole:
            raise self._damaged("its manifest is not what was written by this version")
        return found

    def runs(self) -> Collection[str]:
        """The ids of the runs in it."""
        return self._digests

    def names(self, folder: str) -> Collection[str]:
        """The files of a run by their names below its folder."""
        return self._digests.get(folder, {})

    def read(self, folder: str, name: str) -> bytes:
        """The content of one of them; OSError unless it is what was put there."""
        try:
            content = self._zip.read(f"{BELOW}/{folder}/{name}")
        except _DAMAGE as error:
            raise self._damaged(f"{folder}/{name}: {sanitize(error, 80)}") from error
        if hashlib.sha256(content).hexdigest() != self._digests[folder][name]:
            raise self._damaged(f"{folder}/{name} was changed after it was written")
        return content

    def holds(self, folder: str, digests: Mapping[str, str]) -> bool:
        """Whether the files of a run in it are these."""
        return self._digests.get(folder) == digests

    def _damaged(self, why: str) -> OSError:
        return OSError(errno.EIO, f"archives/{self.path.name} is damaged ({why})", str(self.path))


def write(outputs: Path, name: str, runs: Mapping[str, Mapping[str, Path]]) -> Archive:
    """Write files, by run and name below its folder, into the next archive of a name; verified.

    Raises:
        UserError: what was written cannot be read back; the archive is gone again.
    """
    folder = outputs / "archives"
    make_directory(folder)
    taken = (folder / f"{name}-{number:04d}.zip" for number in itertools.count(1))
    path = next(one for one in taken if not one.exists())
    with (
        new_file(path, replace=False) as descriptor,
        FileIO(descriptor, "wb", closefd=False) as file,
        zipfile.ZipFile(file, "w") as made,
    ):
        digests = {run: _added(made, run, files) for run, files in runs.items()}
        about = as_json(with_checksum({"format": FORMAT, "runs": digests}))
        made.writestr(zipfile.ZipInfo(MANIFEST), about)
    archive = Archive(path)
    try:
        for run, names in digests.items():
            for one in names:
                archive.read(run, one)
    except OSError as error:
        path.unlink()
        raise UserError(f"{error.strerror}; nothing was taken away.") from error
    return archive


def _added(made: zipfile.ZipFile, run: str, files: Mapping[str, Path]) -> dict[str, str]:
    digests = {}
    for name, path in sorted(files.items()):
        member = zipfile.ZipInfo(f"{BELOW}/{run}/{name}")
        # Weights do not get smaller.
        member.compress_type = (
            zipfile.ZIP_STORED if path.suffix == ".ckpt" else zipfile.ZIP_DEFLATED
        )
        digest = hashlib.sha256()
        with opened(path) as source, made.open(member, "w", force_zip64=True) as target:
            while block := source.read(1 << 20):
                digest.update(block)
                target.write(block)
        digests[name] = digest.hexdigest()
    return digests


def find(outputs: Path, run: str) -> Archive | None:
    """The archive that holds a run, or may, since it cannot be read; None if there is none."""
    unreadable = None
    for archive in archives(outputs):
        try:
            if run in archive.runs():
                return archive
        except OSError:
            unreadable = archive
    return unreadable


def archived(outputs: Path) -> set[str]:
    """The ids of all runs in archives; an unreadable one is told by runs that may be in it."""
    found: set[str] = set()
    for archive in archives(outputs):
        with suppress(OSError):
            found.update(archive.runs())
    return found


def archives(outputs: Path) -> tuple[Archive, ...]:
    """All archives in an outputs folder, the newest of a name first."""
    try:
        changed = (outputs / "archives").stat().st_mtime_ns
    except FileNotFoundError:
        return ()
    return _archives(outputs, changed, os.getpid())


@lru_cache(maxsize=4)
def _archives(outputs: Path, changed: int, reader: int) -> tuple[Archive, ...]:
    """`reader`: a process that was forked opens its own, or both would move one place in a file."""
    paths = sorted((outputs / "archives").glob("[!.]*.zip"), reverse=True)
    return tuple(Archive(path) for path in paths if not path.is_symlink())
