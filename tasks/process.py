"""Functions for the start of a process: its command line and its imports."""

import argparse
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


def command_line(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of `python -m MODULE`. `--help` shows `description` unchanged."""
    return argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run_argument(module: str, description: str | None) -> str:
    """Parse the command line of `python -m MODULE RUN`, and return the run directory RUN."""
    os.umask(0o077)  # only the owner may read new files (SECURITY.md)
    parser = command_line(module, description)
    parser.add_argument(
        "run", metavar="RUN", help="the directory of a run, outputs/runs/<id>"
    )
    return parser.parse_args().run


@contextmanager
def freeze_gc() -> Iterator[None]:
    """Turn off garbage collection in the block.

    Later collections skip all objects that exist at the end of the block. Use this function around
    imports, which create half a million objects. Searching them for garbage takes a fifth of the
    import time. In a forked job, the search takes up to half a second, because it copies every page
    of memory that it touches.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
