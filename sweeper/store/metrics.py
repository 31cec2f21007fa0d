"""Metrics of a run: one JSON row a line with a checksum; a damaged line costs only itself."""

import json
import math
import os
import re
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
# From one beginning of a row to the first end before the next beginning.
_ROW = re.compile(
    b"%b(?:(?!%b).)*?%b[0-9a-f]{8}%b" % tuple(map(re.escape, (_START, _START, _CHECK, _END))),
    re.DOTALL,
)
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class MetricsWriter(ExitStack):
    """An appending writer of one file; opening it cuts a row torn by an earlier writer."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self.path = path
        self._file = self.enter_context(FileIO(os.open(path, flags, 0o600), "r+"))
        self._torn = True
        self._repair()
        sync_directory(path.parent)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row of plain values, nan and inf included; its `step` is a whole number."""
        step = row.get("step")
        if not isinstance(step, int) or isinstance(step, bool):
            raise ValueError(f"a row needs a whole number as step, not {step!r}")
        if "crc" in row or any(isinstance(value, dict | list | tuple) for value in row.values()):
            raise ValueError("a row holds plain values, none of them under the name crc")
        plain = {"step": step} | {name: spell_float(value) for name, value in row.items()}
        body = json.dumps(plain, allow_nan=False)[:-1].encode()
        if self._torn:
            self._repair()
        self._torn = True
        write_all(self._file.fileno(), body + _check(body) + b"\n")
        self._torn = False

    def sync(self) -> None:
        """Make every row written so far durable; after an error the file must not be trusted."""
        os.fsync(self._file.fileno())

    def _repair(self) -> None:
        """Make the file end with a line end, so that the next row has its own line."""
        data = read_bytes(self.path) or b""
        tail = data[data.rfind(b"\n") + 1 :]
        if tail and _decode(tail)[0]:
            write_all(self._file.fileno(), b"\n")  # only the line end is missing
        elif tail:
            os.ftruncate(self._file.fileno(), len(data) - len(tail))
        self._torn = False


def read_metrics(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of a file as written, and the number of damaged lines; never fail."""
    rows: list[dict[str, Any]] = []
    damaged = 0
    for line in (read_bytes(path) or b"").split(b"\n"):
        if line:
            found, clean = _decode(line)
            rows += found
            damaged += not clean
    return rows, damaged


def spell_float(value: Any) -> Any:
    """Return nan and infinities, which JSON lacks, as words; return other values unchanged."""
    return str(float(value)) if isinstance(value, float) and not math.isfinite(value) else value


def _check(body: bytes) -> bytes:
    return _CHECK + b"%08x" % zlib.crc32(body) + _END


def _decode(line: bytes) -> tuple[list[dict[str, Any]], bool]:
    """Return the rows in `line`, and whether it is exactly one row.

    A damaged line may still hold rows: a lost line end joins two good rows, and a file system may
    leave a block of NULs in front of one.
    """
    row = _checked(line)
    if row is not None:
        return [row], True
    found = (_checked(match.group()) for match in _ROW.finditer(line))
    return [row for row in found if row is not None], False


def _checked(text: bytes) -> dict[str, Any] | None:
    body, check = text[:_CHECK_AT], text[_CHECK_AT:]
    if not body.startswith(_START) or check != _check(body):
        return None
    try:
        row = json.loads((body + b"}").decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(row["step"], int):
        return None
    return {name: _FLOATS.get(v, v) if isinstance(v, str) else v for name, v in row.items()}
