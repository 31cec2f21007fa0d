"""How anything reaches the disk and comes back: whole or not at all, inside its own folder."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from sweeper.store.archives.reading import opened
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.validate import PLAIN, Shape, parse_float, parse_integer, validate

FORMAT = 1
CHECKSUM = "sha256"  # the key under which a sealed file says the digest of all others

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class AlreadyPublished(FileExistsError):
    """Another writer published this name first."""


def child(root: Path, name: str) -> Path:
    """`root/name`; the one place where a name becomes a path.

    Raises UserError unless `name` is a single plain component and no symbolic link stands there.
    """
    if not PLAIN.fullmatch(name):
        raise invalid_value(
            "name", name, "at most 128 letters, digits, '.', '_' and '-'", "choose a plain name"
        )
    path = root / name
    if path.is_symlink():
        raise invalid_value(
            "name", path, "no symbolic link", "remove the link or choose another name"
        )
    return path


def make_directory(path: Path, mode: int = 0o700) -> None:
    """Creates `path`, by default private to the user, and its missing parents; all durable.

    UserError where `path` is a symbolic link: what is written below must not land elsewhere.
    """
    if path.is_symlink():
        raise invalid_value(
            "folder", path, "no symbolic link", "link the whole outputs folder instead"
        )
    missing = [*takewhile(lambda part: not part.is_dir(), (path, *path.parents))]
    for part in reversed(missing):
        try:
            part.mkdir(mode=0o700)
        except FileExistsError:  # by another machine, and not to be seen here yet
            if part.is_file():
                raise
        if part == path and mode != 0o700:
            part.chmod(mode)  # whatever the umask
        sync_directory(part.parent)


def sync_directory(path: Path) -> None:
    """Makes the names in `path` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the answer of file systems without fsync of directories
            raise
    finally:
        os.close(descriptor)


@contextmanager
def new_file(
    path: Path, *, replace: bool = True, durable: bool = True, mode: int = 0o600
) -> Iterator[int]:
    """A descriptor to write to; what was written becomes `path` in one step at the end.

    Any failure leaves `path` as it was. With `replace=False`, AlreadyPublished where `path` exists.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, _CREATE, 0o600)
    try:
        try:
            yield descriptor
            os.fchmod(descriptor, mode)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if replace:
            temporary.rename(path)
        else:
            _link(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_directory(path.parent)


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        # A file server that repeats a request whose answer was lost says "exists" to its own
        # success; the number of links tells the two apart.
        if temporary.stat().st_nlink == 1:
            raise AlreadyPublished(errno.EEXIST, "already published", str(path)) from None
    temporary.unlink()


def write_all(descriptor: int, data: bytes) -> None:
    """Writes `data` in one call where the system takes it whole."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def publish(path: Path, data: bytes | str, *, replace: bool = True, durable: bool = True) -> bool:
    """Makes `data` the content of `path` in one step; False if it exists and `replace` is False."""
    content = data.encode() if isinstance(data, str) else data
    try:
        with new_file(path, replace=replace, durable=durable) as descriptor:
            write_all(descriptor, content)
    except AlreadyPublished:
        return False
    return True


def publish_json(path: Path, value: Any, *, replace: bool = True, durable: bool = True) -> bool:
    """`publish` of `value` as JSON; ValueError for nan and inf, which JSON does not have."""
    return publish(path, as_json(value), replace=replace, durable=durable)


def as_json(value: Any) -> str:
    """The text of a JSON file; ValueError for nan and inf."""
    return json.dumps(value, allow_nan=False, indent=1) + "\n"


def publish_with_checksum(path: Path, value: dict[str, Any]) -> bool:
    """`publish_json` of an object with its own digest, once; False if the path exists."""
    return publish_json(path, with_checksum(value), replace=False)


def with_checksum(value: dict[str, Any]) -> dict[str, Any]:
    """An object with its own digest, as `read_versioned` verifies it."""
    return {**value, CHECKSUM: _digest(value)}


def canonical(value: Any) -> str:
    """The one JSON text of `value`, whatever the order of its keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def read_bytes(path: Path, last: int | None = None) -> bytes | None:
    """The content (its `last` bytes) of a regular file, no link; None if absent; else OSError."""
    try:
        file = opened(path)
    except FileNotFoundError:
        return None
    with file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - last) if last is not None else 0)
        return file.read()


def digest_of_file(path: Path) -> str:
    """sha256 of a regular file that is no symbolic link, as hex; else OSError."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def read_json(path: Path) -> Any | None:
    """The value in a JSON file; None if the file is absent; UserError if it cannot be read."""
    try:
        data = read_bytes(path)
        if data is None:
            return None
        return json.loads(
            data, parse_constant=_refuse, parse_int=parse_integer, parse_float=parse_float
        )
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, f"it is not JSON ({sanitize(error, 80)})") from error


def read_object(
    path: Path, *, keys: Collection[str] = (), shape: Shape = dict
) -> dict[str, Any] | None:
    """`read_json` of a file that must hold an object with these keys, and be of this shape."""
    value = read_json(path)
    if value is not None:
        _check(path, value, keys, shape)
    return value


def read_versioned(
    path: Path, *, keys: Collection[str] = (), shape: Shape = dict
) -> dict[str, Any] | None:
    """`read_object` of a file that must also be of the format written here, and, where it says
    its digest, be what was written."""
    value = read_object(path, keys=("format",))
    if value is None:
        return None
    if (found := value["format"]) != FORMAT:
        told = f"it is of format {sanitize(found)}, not {FORMAT}; use the version that wrote it"
        raise UserError(f"{sanitize(path)} cannot be read: {told}, or another outputs folder.")
    _check(path, value, keys, shape)
    if value.pop(CHECKSUM, None) not in (None, _digest(value)):
        raise _unreadable(path, "it was changed after it was written")
    return value


def _check(path: Path, value: Any, keys: Collection[str], shape: Shape) -> None:
    if not (isinstance(value, dict) and value.keys() >= set(keys)):
        raise _unreadable(path, f"it is not an object with {', '.join(keys) or 'keys'}")
    if fault := validate(value, shape):
        raise _unreadable(path, fault)


def _digest(value: dict[str, Any]) -> str:
    content = {name: entry for name, entry in value.items() if name != CHECKSUM}
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def _refuse(token: str) -> NoReturn:
    raise ValueError(f"{token} is no JSON value")


def _unreadable(path: Path, reason: str) -> UserError:
    return UserError(
        f"{sanitize(path)} cannot be read: {reason}; restore the file or move it away."
    )


FULL = (errno.ENOSPC, errno.EDQUOT)
_REASONS = {
    errno.ENOTDIR: ("a folder, but {} is a file", "remove the file"),
    errno.EEXIST: ("a folder, but {} is a file", "remove the file"),
    errno.ENOSPC: ("free space, but the disk is full (df, df -i)", "free some space"),
    errno.EDQUOT: ("free space, but the quota is used up", "free some space"),
    errno.EROFS: ("a folder that can be written, but it is read-only", "mount it for writing"),
    errno.EACCES: ("a folder that you may write to", "change its permissions"),
}


def check_writable(outputs: Path) -> None:
    """Makes `outputs` if need be and tries every operation the store rests on; else UserError."""
    name = f".probe.{secrets.token_hex(8)}"
    paths = [outputs / f"{name}.renamed.tmp", outputs / f"{name}.linked.tmp"]
    try:
        make_directory(outputs.resolve())
        publish(paths[0], "probe")
        publish(paths[1], "probe", replace=False)
    except OSError as error:
        raise _explained(outputs, error) from error
    finally:
        for path in paths:
            with suppress(OSError):
                path.unlink()


def _explained(outputs: Path, error: OSError) -> UserError:
    other = f"to make, rename and hard-link files there, but: {error.strerror}", "repair that"
    expected, remedy = _REASONS.get(error.errno or 0, other)
    expected = expected.replace("{}", sanitize(error.filename))
    return invalid_value("outputs", outputs, expected, f"{remedy} or choose another folder")
