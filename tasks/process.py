"""The start of a process: its command line, and garbage collection kept off imports."""

import argparse
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


def command_line(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of `python -m MODULE`; --help shows `description` as it is written."""
    return argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def typed_run(module: str, description: str | None) -> str:
    """Return the run directory that was typed."""
    os.umask(0o077)  # as SECURITY.md says: for the owner alone
    parser = command_line(module, description)
    parser.add_argument("run", metavar="RUN", help="the directory of a run, outputs/runs/<id>")
    return parser.parse_args().run


@contextmanager
def freeze_gc() -> Iterator[None]:
    """Collect no garbage in the block, and never search the objects that exist at its end.

    Searching half a million objects of the libraries takes a fifth of their import, and in a forked
    job, which copies each page that it touches, up to half a second.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
