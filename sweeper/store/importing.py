"""Import plugins without harm to this process, although their code may print, block or exit."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType

LONGEST_S = 30.0
SURVIVED = 83  # exit code of the forked process if the import succeeds


def import_apart(module: str) -> ModuleType:
    """Import a module without access to stdin and stdout, and return it.

    First test the import in a forked process.

    Raises:
        ImportError: the import raises any error, ends its process, or takes more than LONGEST_S
            seconds.
    """
    if module in sys.modules:
        return sys.modules[module]
    _try(module)
    try:
        with _streams_apart():
            return importlib.import_module(module)
    except ImportError:
        raise
    except (Exception, SystemExit) as error:
        raise ImportError(
            " ".join(f"{type(error).__name__}: {error}".split())
        ) from error


def _try(module: str) -> None:
    """Import a module in a forked process, to find out whether this is safe.

    Raise ImportError if the import ends the process or takes too long.
    """
    from multiprocessing import get_context  # rarely needed, and slow to import

    process = get_context("fork").Process(target=_import_silently, args=[module])
    process.start()
    process.join(LONGEST_S)
    if process.is_alive():
        process.kill()
        raise ImportError(f"the import took more than {LONGEST_S:g} seconds")
    if process.exitcode != SURVIVED:
        raise ImportError(
            f"the import ended the Python process with exit code {process.exitcode}"
        )


def _import_silently(module: str) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    # Ignore errors: the parent process imports the module again, and reports them.
    with suppress(BaseException):
        importlib.import_module(module)
    os._exit(SURVIVED)


@contextmanager
def _streams_apart() -> Iterator[None]:
    """Make stdin empty and send stdout to stderr inside the block. Restore both after it.

    The size server uses stdin and stdout for a protocol, which a module that prints would disturb.
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
