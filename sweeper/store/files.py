"""Atomic writing and checked reading of files. A reader sees a complete file or none.

`child` checks a name before it becomes part of a path. `read_object` checks the content of a file
against a schema, because users may edit files. `read_versioned` also verifies the checksum.
"""

import errno
import hashlib
import io
import json
import os
import re
import secrets
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError

from sweeper.store.errors import UserError, invalid_value, sanitize

FORMAT = 1
T = TypeVar("T")
# The key of a file's checksum, which is the sha256 of all other keys and values.
CHECKSUM = "sha256"

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # names that are safe in paths


# Without O_NONBLOCK, opening a named pipe would wait for a writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def child(root: Path, name: str) -> Path:
    """Return the path `root/name`, for a name that comes from a user or from a file.

    Raise UserError if `name` does not match PLAIN, or if it is a symbolic link in `root`.
    """
    if not PLAIN.fullmatch(name):
        expected = "at most 128 letters, digits, '.', '_' and '-'"
        remedy = "choose a name of these characters that begins with a letter or digit"
        raise invalid_value("name", name, expected, remedy)
    path = root / name
    if path.is_symlink():
        remedy = "remove the link or choose another name"
        raise invalid_value("name", path, "no symbolic link", remedy)
    return path


def make_directory(path: Path, mode: int = 0o700) -> None:
    """Create the folder `path` and its missing parents, and flush them to disk.

    Args:
        path: the folder.
        mode: the permissions of the new folders. By default, only their owner has access.

    Raises:
        UserError: `path` is a symbolic link, which would put files elsewhere.
    """
    if path.is_symlink():
        raise UserError(
            f"{sanitize(path)} is a symbolic link; remove it, or link the whole outputs folder."
        )
    missing = [*takewhile(lambda part: not part.is_dir(), (path, *path.parents))]
    for part in reversed(missing):
        # Another process may have created the folder in the meantime.
        part.mkdir(mode=0o700, exist_ok=True)
        if mode != 0o700:
            part.chmod(mode)  # mkdir would apply the umask to the mode
        sync_directory(part.parent)


def sync_directory(path: Path) -> None:
    """Flush the entries of the folder `path` to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot fsync folders
            raise
    finally:
        os.close(descriptor)


@contextmanager
def new_file(
    path: Path, *, replace: bool = True, durable: bool = True, mode: int = 0o600
) -> Iterator[int]:
    """Yield the descriptor of a temporary file, and rename the file to `path` after the block.

    If the block fails, `path` is unchanged.

    Args:
        path: the path of the complete file.
        replace: whether to replace an existing file.
        durable: whether to flush the file to disk before it gets its name.
        mode: the permissions of the file.

    Raises:
        FileExistsError: `path` exists and `replace` is False.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(temporary, _CREATE, 0o600)
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
            try:
                os.link(temporary, path)
            except FileExistsError:
                # An NFS client repeats a request if the reply was lost. The repeated request fails,
                # although the first one created the link. Then the temporary file has two links.
                if temporary.stat().st_nlink == 1:
                    raise
    except OSError as error:
        # The caller does not know the temporary file, so let the error name `path`. Leave errors
        # without an errno as they are: with a file name, Python would no longer print their text.
        if error.errno and error.filename in (None, str(temporary)):
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            temporary.unlink()
    if durable:
        sync_directory(path.parent)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`. A single call of `os.write` may write only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def publish(
    path: Path, data: bytes | str, *, replace: bool = True, durable: bool = True
) -> bool:
    """Write `data` to `path` atomically. Return False if `path` exists and `replace` is False."""
    content = data.encode() if isinstance(data, str) else data
    try:
        with new_file(path, replace=replace, durable=durable) as descriptor:
            write_all(descriptor, content)
    except FileExistsError:
        return False
    return True


def publish_json(
    path: Path, value: Any, *, replace: bool = True, durable: bool = True
) -> bool:
    """Write `value` as JSON to `path` atomically.

    Return False if `path` exists and `replace` is False. Raise ValueError for nan and inf, which
    JSON cannot represent.
    """
    return publish(path, as_json(value), replace=replace, durable=durable)


def as_json(value: Any) -> str:
    """Return `value` as the text of a JSON file. Raise ValueError for nan and inf."""
    return json.dumps(value, allow_nan=False, indent=1) + "\n"


def publish_with_checksum(
    path: Path, value: Mapping[str, Any], *, replace: bool = False
) -> bool:
    """Write an object and its checksum to `path` atomically.

    Return False if `path` exists and `replace` is False.
    """
    return publish_json(path, with_checksum(value), replace=replace)


def with_checksum(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `value` with the checksum that `verified` checks."""
    return {**value, CHECKSUM: sha256_of(value)}


def canonical(value: Any) -> str:
    """Return the JSON text of `value` with sorted keys and without spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256_of(value: Any) -> str:
    """Return the sha256 of the canonical text of `value`, in hex."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def opened(path: Path) -> io.FileIO:
    """Open a regular file for reading. Raise OSError for anything else, such as a symbolic link."""
    descriptor = os.open(path, _READ)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return io.FileIO(descriptor)


def entries(folder: Path, *, folders: bool = False) -> list[str]:
    """Return the names of the files in a folder, unsorted. Leave out symbolic links.

    If `folders` is True, return the names of subfolders instead. Return [] if there is no folder.
    """
    try:
        with os.scandir(folder) as found:
            return [
                entry.name
                for entry in found
                if (entry.is_dir if folders else entry.is_file)(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []


def read_bytes(path: Path, last: int | None = None) -> bytes | None:
    """Return the content of a regular file, or None if there is no file.

    If `last` is given, return only the last `last` bytes. Raise OSError if the file cannot be read,
    or is not a regular file, such as a symbolic link.
    """
    try:
        file = opened(path)
    except FileNotFoundError:
        return None
    with file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - last) if last is not None else 0)
        return file.read()


def digest_of_file(path: Path) -> str:
    """Return the sha256 of a regular file in hex. Raise OSError if it cannot be read."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> Any | None:
    """Return the value in a JSON file, or None if there is no file.

    Raise UserError if the file is not valid JSON or cannot be read.
    """
    try:
        data = read_bytes(path)
        if data is None:
            return None
        text = data.decode("utf-8", "surrogatepass")
        return json.loads(text, parse_constant=_refuse_constant)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, f"it is not JSON ({sanitize(error, 80)})") from error


def read_object(
    path: Path, *, keys: Collection[str] = (), schema: Any = dict
) -> dict[str, Any] | None:
    """Return the object in a JSON file, or None if the file is absent.

    Args:
        path: the file.
        keys: the keys that the object must have.
        schema: the type of the object, a TypedDict. The object may have more keys.

    Raises:
        UserError: the file cannot be read, lacks a key, or does not fit the schema.
    """
    value = read_json(path)
    if value is not None:
        _check(path, value, keys, schema)
    return value


def read_versioned(
    path: Path, *, keys: Collection[str] = (), schema: Any = dict
) -> dict[str, Any] | None:
    """Return the object in a JSON file, as `read_object` does, but without its checksum.

    Raise UserError also if the file has another format or a wrong checksum.
    """
    value = read_object(path, keys=("format",))
    if value is None:
        return None
    if value["format"] != FORMAT:
        found = sanitize(value["format"])
        raise UserError(
            f"{sanitize(path)} cannot be read: it has format {found}, not {FORMAT}. Use the "
            "version of Headroom that wrote it, or choose another outputs folder."
        )
    _check(path, value, keys, schema)
    return verified(path, value)


def load(path: Path, kind: type[T]) -> T | None:
    """Return a JSON file as an instance of `kind`, a pydantic dataclass, or None if it is absent.

    Verify its format and checksum. Raise UserError if the file does not fit `kind`.
    """
    value = read_versioned(path)
    if value is None:
        return None
    with _validation(path):
        return kind(**value)


def verified(path: Path, value: dict[str, Any]) -> dict[str, Any]:
    """Verify and remove the checksum in `value`, the content of the file `path`. Return `value`.

    Raise UserError if the checksum is missing or wrong.
    """
    try:
        unchanged = value.pop(CHECKSUM, None) == sha256_of(value)
    except ValueError:
        # Python reads a number that is too large for a float as inf, which sha256_of refuses.
        # Headroom writes no such number, so the file was changed.
        unchanged = False
    if not unchanged:
        raise _unreadable(path, "it was changed after it was written")
    return value


@cache
def _adapter(schema: Any) -> TypeAdapter[Any]:
    return TypeAdapter(schema)


def _check(path: Path, value: Any, keys: Collection[str], schema: Any) -> None:
    if not (isinstance(value, dict) and value.keys() >= set(keys)):
        expected = f" with the keys {', '.join(keys)}" if keys else ""
        raise _unreadable(path, f"it is not a JSON object{expected}")
    with _validation(path):
        _adapter(schema).validate_python(value, strict=True)


@contextmanager
def _validation(path: Path) -> Iterator[None]:
    """Raise UserError for the file `path` if pydantic rejects a value in the block."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        # If a value may have several types, pydantic appends the type that it tried.
        keys = [str(key) for key in first["loc"] if key not in ("float", "int")]
        place = ".".join(keys)
        raise _unreadable(path, f"{sanitize(place)}: {first['msg']}") from None


def _refuse_constant(token: str) -> NoReturn:
    raise ValueError(f"{token} is not a JSON value")


def _unreadable(path: Path, reason: str) -> UserError:
    return UserError(
        f"{sanitize(path)} cannot be read: {reason}. Restore the file or move it away."
    )


FULL = (errno.ENOSPC, errno.EDQUOT)


def check_writable(outputs: Path) -> None:
    """Check that files can be written, renamed and hard-linked in the folder `outputs`.

    Create the folder if needed. Raise UserError if one of these operations fails.
    """
    probe = outputs / f".probe.{secrets.token_hex(8)}.tmp"
    try:
        make_directory(outputs.resolve())
        publish(probe, "probe")  # writes and renames a file
        probe.unlink()
        publish(probe, "probe", replace=False)  # writes and hard-links a file
    except OSError as error:
        expected = (
            "a folder in which files can be written, renamed and hard-linked, but this failed "
            f'with "{sanitize(error)}"'
        )
        remedy = "free some space, correct the permissions, or choose another folder"
        raise invalid_value("outputs", outputs, expected, remedy) from error
    finally:
        with suppress(OSError):
            probe.unlink()
