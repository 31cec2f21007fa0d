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
    """Whether this process was asked to stop.

    Outside of `deferred` the first signal raises Interrupted where the program stands; inside, it
    is only noted in `requested`, for the job to stop where its state is whole. The second signal
    calls `at_once`.
    """

    def __init__(self, at_once: Callable[[], None]) -> None:
        self.requested = False
        self._at_once = at_once
        self._deferred = False

    def install(self) -> None:
        """Take the signals over, also from a library that took them meanwhile."""
        for number in STOPS:
            signal.signal(number, self._handle)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only note a signal while the block runs; it has to look at `requested` itself."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def synchronize(self) -> None:
        """Learn whether another process of the same run was asked to; there is none."""

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
