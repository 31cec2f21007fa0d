"""SIGTERM and SIGINT: the first asks a job to save and stop, the second stops it at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(BaseException):
    """The job was asked to stop. Not an Exception, so that no library takes it for a failure."""


class Interruption:
    """The request to stop this process.

    Outside of `deferred` the first signal raises Interrupted at once; inside it only sets
    `requested`, and the job stops where its state is whole. The second signal calls `at_once`.
    """

    def __init__(self, at_once: Callable[[], None]) -> None:
        self.requested = False
        self._at_once = at_once
        self._deferred = False

    def install(self) -> None:
        """Handle the signals, also those that a library handles meanwhile."""
        for number in STOPS:
            signal.signal(number, self._handle)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Set only `requested` on a signal in the block, which has to check it."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def synchronize(self) -> None:
        """Share `requested` among the processes of a run; here there is one."""

    def check(self) -> None:
        """Raise Interrupted if the job was asked to stop."""
        if self.requested:
            raise Interrupted

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            self._at_once()
        self.requested = True
        if not self._deferred:
            raise Interrupted
