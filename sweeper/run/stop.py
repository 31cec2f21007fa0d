"""Ctrl-C and SIGTERM: the first stops a sweep gently, the second at once."""

import signal
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A request to stop the sweep; `code` is the exit code that a shell reports for it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


class StopSignals(ExitStack):
    """Handlers of both signals: inside `held` they wait for `check`, elsewhere they raise at once.

    A schedule holds them: a signal between the start of a job and the record of its handle would
    leave a job that nothing stops.
    """

    def __init__(self, numbers: Collection[int] = STOPS) -> None:
        super().__init__()
        self._held = False
        self._waiting: list[int] = []
        for number in numbers:
            self.callback(signal.signal, number, signal.signal(number, self._came))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make signals wait while the block runs."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def check(self) -> None:
        """Raise Stopped for the oldest waiting signal."""
        if self._waiting:
            raise Stopped(self._waiting.pop(0))

    def _came(self, number: int, frame: FrameType | None) -> None:
        if not self._held:
            raise Stopped(number)
        self._waiting.append(number)
