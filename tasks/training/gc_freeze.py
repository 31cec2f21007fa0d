"""Keeps Python's collector of cyclic garbage away from what lives as long as the process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting() -> Iterator[None]:
    """Whatever exists at the end of the block is never searched for garbage, nor is it meanwhile.

    The libraries' half a million objects stay. Searching them time and again takes a fifth of their
    import; once in a forked job, which copies each page it touches, up to half a second.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
