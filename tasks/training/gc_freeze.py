"""Garbage collection kept away from objects that live as long as the process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
