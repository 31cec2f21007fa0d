"""The archive format: a zip of regular files with a manifest of their sizes and checksums.

    outputs/archives/<name>-0001.zip    finished runs, read in place; `unzip` puts them back

`pack`, `bundle` and `run.py` write the same format, all files in one folder. A reader compares the
headers with its limits and with the manifest before it reads any content.
"""

import errno
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache, reduce
from pathlib import Path
from typing import IO, Any

from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import (
    Shape,
    as_json,
    child,
    entries,
    make_directory,
    new_file,
    opened,
    validate,
    with_checksum,
)

FORMAT = 2
MANIFEST = "manifest.json"
BLOCK = 1 << 20

MAX_BYTES = 10**12  # of all files together
MAX_DEFLATED_BYTES = 10**9  # of a compressed file, whose header costs an attacker nothing
MAX_MANIFEST_BYTES = 128 * 10**6
MAX_READ_BYTES = 64 * 10**6  # zipfile reads the directory of the zip into memory at once

_ENCRYPTED = 0x1 | 0x20 | 0x40 | 0x2000  # of the whole file, as a patch, strongly, its header
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, UserError, MemoryError),
    *(LookupError, ValueError, ArithmeticError, RuntimeError),
)

Content = Path | bytes
"""A file on disk, or in the archive that its run is in; or the bytes themselves."""


_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_SHAPE = {"kind": str, "files": {str: {"size": int, "sha256": _CHECKSUM}}}
_SHAPE_1 = {"runs": {str: {str: _CHECKSUM}}}  # of archives before format 2: by run and name


def check_manifest(value: Any, expected: int = FORMAT, shape: Shape = _SHAPE) -> dict[str, Any]:
    """Return the JSON value of a manifest; ValueError says what is wrong with it."""
    found = value.get("format") if isinstance(value, dict) else None
    if found != expected:
        reason = f"{MANIFEST} is of format {sanitize(found, 20)}, not {expected}"
        raise ValueError(f"{reason}: use the version that wrote it")
    if with_checksum(value) != value:
        raise ValueError(f"{MANIFEST} was changed after it was written")
    if missing := sorted(shape.keys() - value.keys()):
        raise ValueError(f"{MANIFEST} has no {missing[0]}")
    if fault := validate(value, shape, MANIFEST):
        raise ValueError(fault)
    checked: dict[str, Any] = value
    return checked


class ArchiveError(OSError):
    """A damaged archive, or one that holds what this reader refuses."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(errno.EIO, f"{path.name} is damaged ({reason})", str(path))
        self.reason = reason


class _Source(io.BufferedReader):
    """A file that is read in bounded pieces, whatever lengths a header gives."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_READ_BYTES:
            raise zipfile.BadZipFile(f"a header gives a length of {size} bytes")
        return super().read(MAX_READ_BYTES if size is None or size < 0 else size)


class Archive:
    """An archive for reading. All methods raise ArchiveError if it cannot be trusted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._source: _Source | None = None

    def close(self) -> None:
        """Close the file; the archive cannot be read any more."""
        if self._source is not None:
            self._source.close()

    def __del__(self) -> None:
        self.close()

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        self.close()
        self._source = _Source(opened(self.path))  # type: ignore[arg-type]
        if self._source.read(262)[257:] == b"ustar":
            raise ValueError("it is a tar: use the earlier version that wrote it")
        return zipfile.ZipFile(self._source)

    @cached_property
    def _checked(self) -> tuple[dict[str, Any], dict[str, zipfile.ZipInfo]]:
        """The manifest, and the headers by the names that it gives."""
        with self._refusing():
            members = self._members()
            top = "" if MANIFEST in members else next(iter(members), "").partition("/")[0] + "/"
            if (header := members.pop(f"{top}{MANIFEST}", None)) is None:
                raise ValueError(f"it has no {MANIFEST}")
            if header.file_size > MAX_MANIFEST_BYTES:
                raise ValueError(f"{MANIFEST} is too large")
            about = json.loads(self._zip.read(header))
            if isinstance(about, dict) and about.get("format") == 1:
                files = {
                    f"runs/{run}/{name}": {
                        "size": members[f"runs/{run}/{name}"].file_size,
                        "sha256": checksum,
                    }
                    for run, checksums in check_manifest(about, 1, _SHAPE_1)["runs"].items()
                    for name, checksum in checksums.items()
                }
                about = with_checksum({"format": FORMAT, "kind": "archive", "files": files})
            manifest = check_manifest(about)
            names = {f"{top}{name}" for name in manifest["files"]}
            for name in sorted(members.keys() ^ names)[:1]:
                what = "is missing" if name in names else f"is not in its {MANIFEST}"
                raise ValueError(f"{name} {what}")
            headers = {name: members[f"{top}{name}"] for name in manifest["files"]}
            for name, file in manifest["files"].items():
                if headers[name].file_size != file.get("size"):
                    raise ValueError(f"{name} has another size than in {MANIFEST}")
            return manifest, headers

    def _members(self) -> dict[str, zipfile.ZipInfo]:
        """Return the headers of all files by name; ValueError unless each is harmless."""
        headers = self._zip.infolist()
        members = {header.filename: header for header in headers}
        if len(members) != len(headers):
            raise ValueError("two of its files have one name")
        for name, header in members.items():
            stored = header.compress_type == zipfile.ZIP_STORED
            mode = stat.S_IFMT(header.external_attr >> 16)  # 0: written on a system without modes
            if header.is_dir() or mode not in (0, stat.S_IFREG):
                raise ValueError(f"{name} is not a regular file")
            if header.flag_bits & _ENCRYPTED:
                raise ValueError(f"{name} is encrypted")
            if not stored and header.compress_type != zipfile.ZIP_DEFLATED:
                raise ValueError(f"{name} is compressed in another way than deflate")
            if stored and header.compress_size != header.file_size:
                raise ValueError(f"the header of {name} gives two sizes")
            if not stored and header.file_size > MAX_DEFLATED_BYTES:
                raise ValueError(f"{name} is too large: {header.file_size} bytes uncompressed")
        if (total := sum(header.file_size for header in headers)) > MAX_BYTES:
            raise ValueError(f"it is too large: {total} bytes uncompressed")
        return members

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest: its format, its kind, the size and sha256 of each file, and other keys."""
        return self._checked[0]

    def unpack(self, folder: Path) -> None:
        """Verify all files, then write them below a folder that nobody else writes to."""
        manifest, headers = self._checked
        self.verify()  # of an archive that is refused nothing is written
        with self._refusing():
            places = {name: reduce(child, name.split("/"), folder) for name in headers}
            total = sum(file["size"] for file in manifest["files"].values())
            if total > (free := shutil.disk_usage(folder).free):
                raise ValueError(f"it needs {total} bytes on a disk with {free} free")
            for name, place in places.items():
                make_directory(place.parent)
                with place.open("xb") as target:
                    self._copy(name, target)

    def verify(self) -> None:
        """Read all content and compare it with the manifest."""
        with self._refusing(), Path(os.devnull).open("wb") as target:
            for name in self.manifest["files"]:
                self._copy(name, target)

    def _copy(self, name: str, target: IO[bytes]) -> None:
        manifest, headers = self._checked
        expected = manifest["files"][name]
        size, digest = 0, hashlib.sha256()
        with self._zip.open(headers[name]) as source:
            while (block := source.read(BLOCK)) and size <= expected["size"]:
                size += len(block)
                digest.update(block)
                target.write(block)
        if {"size": size, "sha256": digest.hexdigest()} != expected:
            raise ValueError(f"{name} was changed after it was written")

    @cached_property
    def runs(self) -> dict[str, dict[str, str]]:
        """The sha256 of each file, by run and by name below the run's folder."""
        found: dict[str, dict[str, str]] = {}
        for path, file in self.manifest["files"].items():
            folder, _, rest = path.partition("/")
            run, _, name = rest.partition("/")
            if folder == "runs" and name:
                found.setdefault(run, {})[name] = file["sha256"]
        return found

    def read(self, run: str, name: str) -> bytes:
        """Return the content of a file, verified."""
        target = io.BytesIO()
        with self._refusing():
            self._copy(f"runs/{run}/{name}", target)
        return target.getvalue()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            raise ArchiveError(self.path, sanitize(error, 200).rstrip(".")) from error


def write_archive(
    path: Path,
    kind: str,
    files: Mapping[str, Content],
    about: Mapping[str, Any] | None = None,
    *,
    top: str = "",
    compress: bool = False,
    replace: bool = True,
) -> None:
    """Write files by name and a manifest with the keys of `about`; equal files give equal bytes.

    All names in the zip start with `top`. `compress` deflates all but weights.
    """
    listed = {}
    make_directory(path.parent)
    with (
        new_file(path, replace=replace) as descriptor,
        io.FileIO(descriptor, "wb", closefd=False) as file,
        zipfile.ZipFile(file, "w") as made,
    ):
        for name, content in sorted(files.items()):
            header, digest = zipfile.ZipInfo(f"{top}{name}"), hashlib.sha256()
            with io.BytesIO(content) if isinstance(content, bytes) else opened(content) as source:
                header.file_size = source.seek(0, os.SEEK_END)
                source.seek(0)
                deflatable = header.file_size <= MAX_DEFLATED_BYTES
                if compress and deflatable and not name.endswith(".ckpt"):
                    header.compress_type = zipfile.ZIP_DEFLATED
                with made.open(header, "w") as target:
                    while block := source.read(BLOCK):
                        digest.update(block)
                        target.write(block)
            listed[name] = {"size": header.file_size, "sha256": digest.hexdigest()}
        manifest = with_checksum({"format": FORMAT, "kind": kind, **(about or {}), "files": listed})
        made.writestr(zipfile.ZipInfo(f"{top}{MANIFEST}"), as_json(manifest))


def write_runs(outputs: Path, name: str, runs: Iterable[Path]) -> Path:
    """Write the folders of runs into the next archive of a name, and read it back.

    Raise UserError, and remove the archive, if it was not written as it should be.
    """
    paths = (outputs / "archives" / f"{name}-{number:04d}.zip" for number in itertools.count(1))
    path = next(path for path in paths if not path.exists())
    files = {f"runs/{run.name}/{name}": run / name for run in runs for name in files_below(run)}
    write_archive(path, "archive", files, compress=True, replace=False)
    try:
        Archive(path).verify()
    except OSError as error:
        path.unlink()
        raise UserError(f"{error.strerror}; nothing was taken away.") from error
    return path


def files_below(folder: Path, below: str = "") -> list[str]:
    """Return the names of all files below a folder; a dot in front is of something unfinished."""
    here = folder / below
    found = [f"{below}{name}" for name in entries(here) if name[0] != "."]
    for name in entries(here, folders=True):
        if name[0] != ".":
            found += files_below(folder, f"{below}{name}/")
    return found


def find(outputs: Path, run: str) -> Archive | None:
    """Return the archive of a run, or one that cannot be read and may hold it; None without.

    Of several the one with the most files counts: the run may have got its weights later.
    """
    unreadable, holding = None, list[Archive]()
    for archive in archives(outputs):
        try:
            if run in archive.runs:
                holding.append(archive)
        except OSError:
            unreadable = archive
    return max(holding, key=lambda one: len(one.runs[run]), default=unreadable)


def archives(outputs: Path) -> tuple[Archive, ...]:
    """Return all archives of an outputs folder, the newest of a name first."""
    try:
        changed = (outputs / "archives").stat().st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return _archives(outputs, changed, os.getpid())


@lru_cache(maxsize=4)
def _archives(outputs: Path, changed: int, reader: int) -> tuple[Archive, ...]:
    """Forked processes (`reader`) open files of their own, since they share a position in one."""
    paths = sorted((outputs / "archives").glob("[!.]*.zip"), reverse=True)
    return tuple(Archive(path) for path in paths if not path.is_symlink())
