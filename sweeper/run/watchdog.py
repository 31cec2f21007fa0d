"""The watchdog: finds running jobs that hang, and ends them.

A living process with a heartbeat may still do nothing: blocked in a library, stopped by a signal,
caught in a loop. Only finished batches (`work`) count as progress, on this process's own clock.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from sweeper.store.liveness import HEARTBEAT_SECONDS

DUMP = signal.SIGUSR1
"""On this signal a job writes the stack of each thread to its log."""

SLOW = 10
"""A step may take this many times the median step."""

LEAST_S = 3 * HEARTBEAT_SECONDS  # the heartbeat allows no closer watch


Progress = tuple[int, object, object]  # batches done, step, phase


@dataclass
class _Attempt:
    progress: Progress
    since: float
    paces: deque[float] = field(default_factory=lambda: deque(maxlen=20))
    sent: signal.Signals | None = None
    sent_at: float = 0.0


@dataclass
class Watchdog:
    """A watch over running attempts that returns the signal due to one that hangs."""

    limit_s: float
    grace_s: float
    clock: Callable[[], float] = time.monotonic
    _watched: dict[str, _Attempt] = field(default_factory=dict)

    def due(self, attempt: str, heartbeat: Mapping[str, Any] | None) -> signal.Signals | None:
        """Return the signal to send now to a running attempt with this heartbeat, if any."""
        now = self.clock()
        work = int((heartbeat or {}).get("work", 0))
        progress: Progress = (work, (heartbeat or {}).get("step"), (heartbeat or {}).get("phase"))
        seen = self._watched.setdefault(attempt, _Attempt((work, None, None), now))
        if seen.sent is DUMP:
            return self._send(seen, signal.SIGTERM, now)
        if seen.sent is not None:  # also if it moved since: it may have moved only to end itself
            late = now - seen.sent_at > self.grace_s
            return self._send(seen, signal.SIGKILL, now) if late else None
        if progress != seen.progress:
            done = progress[0] - seen.progress[0]
            if done > 0:
                seen.paces.append((now - seen.since) / done)
            seen.progress, seen.since = progress, now
        elif now - seen.since > self._limit(seen):
            return self._send(seen, DUMP, now)
        return None

    def hung(self, attempt: str) -> str:
        """Return how an attempt hung that this watchdog ended, in words; else nothing."""
        seen = self._watched.get(attempt)
        if seen is None or seen.sent is None:
            return ""
        return f"nothing done for {self._limit(seen):.0f} s; the stacks are in its log"

    def _limit(self, seen: _Attempt) -> float:
        return max(self.limit_s, SLOW * median(seen.paces)) if seen.paces else self.limit_s

    def _send(self, seen: _Attempt, number: signal.Signals, now: float) -> signal.Signals:
        seen.sent, seen.sent_at = number, now
        return number
