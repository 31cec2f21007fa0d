"""Imports of plugins. Their code may print, block or exit when it is imported."""

import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, ModuleType
from typing import NoReturn

LONGEST_S = 30.0


def import_apart(module: str) -> ModuleType:
    """Import a module without access to stdin and stdout, in at most LONGEST_S seconds.

    Raises:
        ImportError: the import raises any error, exits the process, or takes too long.
    """
    if module in sys.modules:
        return sys.modules[module]
    try:
        with _streams_apart(), _time_limit():
            return importlib.import_module(module)
    except ImportError:
        raise
    except (Exception, SystemExit) as error:
        raise ImportError(
            " ".join(f"{type(error).__name__}: {error}".split())
        ) from error


@contextmanager
def _streams_apart() -> Iterator[None]:
    """Make stdin empty and send stdout to stderr inside the block. Restore the streams after it.

    The process may use stdin and stdout for a protocol, or to print results.
    """
    sys.stdout.flush()
    streams = sys.stdin, sys.stdout, sys.stderr
    kept = [os.dup(number) for number in range(3)]
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    try:
        yield
    finally:
        with suppress(OSError, ValueError):  # the block may have closed the stream
            streams[1].flush()
        for number, copy in enumerate(kept):
            os.dup2(copy, number)
            os.close(copy)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, "w" if number else "r", closefd=False)
            if stream.closed
            else stream
            for number, stream in enumerate(streams)
        )


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise TimeoutError in the block after LONGEST_S seconds.

    Outside the main thread there is no limit, since only the main thread receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise TimeoutError(f"its import took more than {LONGEST_S:g} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
