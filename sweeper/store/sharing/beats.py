"""A small file that tells again and again: kept open and written over, so that a beat asks little.

A name is made once. To create and rename a file for each beat is five questions to a file server,
and at 500 jobs hundreds a second.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError
from sweeper.store.files import canonical, read_object
from sweeper.store.shape import Shape

_CHECK = "crc"  # tells a beat that was read while it was written, and a torn one


class Beats:
    """The writer of one such file, which need not be there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._longest = 0
        self._over = False

    def write(self, value: Mapping[str, Any], *, told: bool) -> None:
        """Say `value` in place of what was said before, until the end; ValueError for nan and inf.

        `told`: a file server hears of it at once, not when this machine comes round to it.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        if self._over:
            return
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, flags, 0o600)
            self._longest = os.fstat(self._descriptor).st_size
        text = json.dumps({**value, _CHECK: _check(value)}, allow_nan=False).encode()
        self._longest = max(self._longest, len(text))
        os.pwrite(self._descriptor, text.ljust(self._longest), 0)
        if told:
            os.utime(self._descriptor)  # an NFS client sends what was written before it

    def close(self, *, remove: bool = False) -> None:
        """End; what was said last stays, or goes with the file."""
        self._over = True
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
        if remove:
            self._path.unlink(missing_ok=True)


def read_beat(path: Path, shape: Shape) -> dict[str, Any] | None:
    """What such a file says; None if nothing whole is there."""
    with suppress(UserError):
        value = read_object(path, shape=shape)
        if value is not None and value.pop(_CHECK, None) in (None, _check(value)):
            return value
    return None


def _check(value: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(canonical(value).encode()):08x}"
