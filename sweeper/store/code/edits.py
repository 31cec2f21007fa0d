"""Whether the code was edited while what began with it goes on."""

from __future__ import annotations

import math
import time
from contextlib import suppress

from sweeper.store.code.state import Code, differing

LOOK_S = 30.0  # seconds, at least, from one look to the next: it is many files


class Edits:
    """Looks at the code now and then, and tells once that it is no longer what it was."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._next_look = -math.inf

    def new(self) -> list[str]:
        """The parts that changed, if that was not told yet."""
        if time.monotonic() < self._next_look:
            return []
        self._next_look = time.monotonic() + LOOK_S
        changed = []
        with suppress(OSError):  # files come and go while another commit is checked out
            changed = differing([self._code.parts(), Code.read(self._code.root).parts()])
        if changed:
            self._next_look = math.inf
        return changed
