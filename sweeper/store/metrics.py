"""The file metrics.jsonl of an attempt. Each line is a JSON row with a checksum."""

import json
import math
import os
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import Any

from sweeper.store.files import read_bytes, sync_directory, write_all

_START = b'{"step": '
_CHECK = b', "crc": "'
_END = b'"}'
_CHECK_AT = -len(_CHECK) - 8 - len(_END)
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class MetricsWriter(ExitStack):
    """A writer that appends rows to a file, after it has removed an incomplete last row."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self.path = path
        self._file = self.enter_context(FileIO(os.open(path, flags, 0o600), "r+"))
        self._torn = True
        self._repair()
        sync_directory(path.parent)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append `row`. Its first key must be `step`. Values may be nan or inf."""
        plain = {name: spell_float(value) for name, value in row.items()}
        body = json.dumps(plain, allow_nan=False)[:-1].encode()
        if self._torn:
            self._repair()
        self._torn = True
        write_all(self._file.fileno(), body + _check(body) + b"\n")
        self._torn = False

    def sync(self) -> None:
        """Flush all rows to disk. Raise OSError if this fails."""
        os.fsync(self._file.fileno())

    def _repair(self) -> None:
        """Remove the last row if it is incomplete. If only its newline is missing, add it."""
        data = read_bytes(self.path) or b""
        tail = data[data.rfind(b"\n") + 1 :]
        if tail and _row(tail):
            write_all(self._file.fileno(), b"\n")
        elif tail:
            os.ftruncate(self._file.fileno(), len(data) - len(tail))
        self._torn = False


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, oldest first. Leave out damaged lines."""
    lines = (read_bytes(path) or b"").split(b"\n")
    return [row for line in lines if (row := _row(line)) is not None]


def spell_float(value: Any) -> Any:
    """Return nan, inf and -inf as strings, since JSON has no such numbers. Keep other values."""
    return (
        str(float(value))
        if isinstance(value, float) and not math.isfinite(value)
        else value
    )


def _check(body: bytes) -> bytes:
    return _CHECK + b"%08x" % zlib.crc32(body) + _END


def _row(line: bytes) -> dict[str, Any] | None:
    """Return the row in a line. Return None if the line is damaged."""
    body, check = line[:_CHECK_AT], line[_CHECK_AT:]
    if not body.startswith(_START) or check != _check(body):
        return None
    try:
        row = json.loads(body + b"}")
    except (ValueError, RecursionError):
        return None
    return {
        name: _FLOATS.get(value, value) if isinstance(value, str) else value
        for name, value in row.items()
    }
