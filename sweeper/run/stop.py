"""Handlers of Ctrl-C and SIGTERM. The first signal makes jobs save, the second one kills them."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """Raised when a signal asks the sweep to stop. `code` is the exit code for this signal."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


class StopSignals(ExitStack):
    """Handlers of SIGINT and SIGTERM that raise Stopped.

    Inside the context `held`, only `check` raises Stopped. A schedule runs inside `held`, because
    an exception right after the start of a job could lose the job's handle. Then the sweep could
    not stop the job.
    """

    def __init__(self) -> None:
        super().__init__()
        self._held = False
        self._waiting: list[int] = []
        for number in STOPS:
            self.callback(signal.signal, number, signal.signal(number, self._came))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay signals inside the block until `check` is called."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def check(self) -> None:
        """Raise Stopped for the oldest delayed signal, if there is one."""
        if self._waiting:
            raise Stopped(self._waiting.pop(0))

    def _came(self, number: int, frame: FrameType | None) -> None:
        if not self._held:
            raise Stopped(number)
        self._waiting.append(number)
