"""How tests wait for what another process does."""

import time
from collections.abc import Callable


def wait_until(seen: Callable[[], object], what: str) -> None:
    """Wait until `seen` returns something true. Raise AssertionError after three minutes."""
    deadline = time.monotonic() + 180
    while not seen():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
