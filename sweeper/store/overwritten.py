"""A file that changes without a change of names: what a job tells of itself every few seconds."""

from __future__ import annotations

import os
from pathlib import Path

_flush = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class Overwritten:
    """A small file that one process writes anew again and again, where it stands.

    No name is made or changed for it, so that a file server has nothing to do but take the bytes.
    Whoever reads meanwhile may find two contents mixed: it is for what is a hint only.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        self._longest = 0

    def write(self, text: str) -> None:
        """Make it the content, with blanks behind it where what was there was longer."""
        data = text.encode()
        self._longest = max(self._longest, len(data))
        os.pwrite(self._descriptor, data.ljust(self._longest), 0)

    def sync(self) -> None:
        """Have other machines see it."""
        _flush(self._descriptor)
