"""Whether a run still gets on, and what it takes to end one that does not.

A process that lives, and has a heartbeat, may do nothing: blocked in a library, stopped by a
signal, caught in a loop. Only batches done count (its `work`), on this process's own clock.
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
"""At this a job writes the stack of each of its threads into its log."""

SLOW = 10
"""A step may take this many times as long as the median step."""

LEAST_S = 3 * HEARTBEAT_SECONDS  # what is told less often cannot be watched more closely


Progress = tuple[int, object, object]  # batches done, step, phase


@dataclass
class _Watched:
    progress: Progress
    since: float
    paces: deque[float] = field(default_factory=lambda: deque(maxlen=20))
    sent: signal.Signals | None = None
    sent_at: float = 0.0


@dataclass
class Watchdog:
    """Looks at running attempts; says which signal one that hangs is due."""

    limit_s: float
    grace_s: float
    clock: Callable[[], float] = time.monotonic
    _watched: dict[str, _Watched] = field(default_factory=dict)

    def due(self, attempt: str, heartbeat: Mapping[str, Any] | None) -> signal.Signals | None:
        """The signal to send now to a running attempt with this newest heartbeat, if any."""
        now = self.clock()
        work = int((heartbeat or {}).get("work", 0))
        progress: Progress = (work, (heartbeat or {}).get("step"), (heartbeat or {}).get("phase"))
        seen = self._watched.setdefault(attempt, _Watched((work, None, None), now))
        if seen.sent is not None:  # there is no way back: it may have moved only to end itself
            return self._harder(seen, now)
        if progress != seen.progress:
            self._note(seen, progress, now)
        elif now - seen.since > self._limit(seen):
            return self._send(seen, DUMP, now)
        return None

    def hung(self, attempt: str) -> str:
        """In words, how an attempt hung that this watchdog ended; empty if it did not."""
        seen = self._watched.get(attempt)
        if seen is None or seen.sent is None:
            return ""
        return f"nothing done for {self._limit(seen):.0f} s; the stacks are in its log"

    def _limit(self, seen: _Watched) -> float:
        return max(self.limit_s, SLOW * median(seen.paces)) if seen.paces else self.limit_s

    def _note(self, seen: _Watched, progress: Progress, now: float) -> None:
        done = progress[0] - seen.progress[0]
        if done > 0:
            seen.paces.append((now - seen.since) / done)
        seen.progress, seen.since = progress, now

    def _harder(self, seen: _Watched, now: float) -> signal.Signals | None:
        if seen.sent is DUMP:
            return self._send(seen, signal.SIGTERM, now)
        return self._send(seen, signal.SIGKILL, now) if now - seen.sent_at > self.grace_s else None

    def _send(self, seen: _Watched, number: signal.Signals, now: float) -> signal.Signals:
        seen.sent, seen.sent_at = number, now
        return number
