"""Ctrl-C and SIGTERM: the first signal lets running jobs save, the second one kills them."""

import signal
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A request to stop the sweep. `code` is the exit code of a process that the signal ended."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


class StopSignals(ExitStack):
    """Handlers of SIGINT and SIGTERM that raise Stopped, at once or, inside `held`, in `check`.

    A schedule runs inside `held`. A signal between the start of a job and the record of its handle
    would leave a job that nothing stops.
    """

    def __init__(self, numbers: Collection[int] = STOPS) -> None:
        super().__init__()
        self._held = False
        self._waiting: list[int] = []
        for number in numbers:
            self.callback(signal.signal, number, signal.signal(number, self._came))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside the block, raise Stopped only in `check`."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def check(self) -> None:
        """Raise Stopped for the oldest signal that came inside `held`; without one, do nothing."""
        if self._waiting:
            raise Stopped(self._waiting.pop(0))

    def _came(self, number: int, frame: FrameType | None) -> None:
        if not self._held:
            raise Stopped(number)
        self._waiting.append(number)
