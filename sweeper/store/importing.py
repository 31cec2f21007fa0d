"""Imports of installed packages, whose code may do anything at its import."""

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
    """Import a module of a package, without the standard streams and for at most LONGEST_S seconds.

    Raises:
        ImportError: the module cannot be imported, raises any error, exits, or takes longer.
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
    """Let the block read nothing and print to stderr, and undo what it does to the streams.

    Stdin and stdout may carry a protocol, or the output of a command.
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
        with suppress(OSError, ValueError):  # closed
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
    """Raise TimeoutError in the block after LONGEST_S seconds; only a main thread can do so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise TimeoutError(f"its import takes more than {LONGEST_S:g} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
