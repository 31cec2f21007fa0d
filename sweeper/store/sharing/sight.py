"""What is there though it is not to be seen yet, as on a network file system for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from sweeper.store.liveness import LEASE_SECONDS

Found = TypeVar("Found")


def once_seen(read: Callable[[], Found | None]) -> Found | None:
    """What `read` finds where another was told that the name is taken; None if it never appears."""
    until = time.monotonic() + LEASE_SECONDS
    while (found := read()) is None and time.monotonic() < until:
        time.sleep(0.1)
    return found
