"""Ctrl-C and SIGTERM to a sweep: the first stops it gently, the second at once."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """Somebody asked the sweep to stop; `code` is what a shell reports for such an end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


class StopSignals(ExitStack):
    """Takes both signals over: inside `held` they wait for `check`; elsewhere they raise at once.

    A schedule holds them: raised between the start of a job and the note of its number, a signal
    would leave a job that nobody stops.
    """

    def __init__(self, numbers: Collection[int] = STOPS) -> None:
        super().__init__()
        self._held = False
        self._waiting: list[int] = []
        for number in numbers:
            self.callback(signal.signal, number, signal.signal(number, self._came))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Signals wait while the block runs."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def check(self) -> None:
        """Raise Stopped for the oldest signal that waits."""
        if self._waiting:
            raise Stopped(self._waiting.pop(0))

    def _came(self, number: int, frame: FrameType | None) -> None:
        if not self._held:
            raise Stopped(number)
        self._waiting.append(number)
