"""Reactions to failures: a watchdog for hanging jobs, and a breaker that stops starting jobs."""

from __future__ import annotations

import re
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from sweeper.run.backend import device_hours
from sweeper.run.options import SweepOptions
from sweeper.store.attempts import Cause
from sweeper.store.runs import RunStore, Status

# Causes that come from a run's own settings. They do not suggest that other runs will fail.
OWN = (Cause.NAN, Cause.OUT_OF_GPU_MEMORY, Cause.OUT_OF_HOST_MEMORY)

DUMP = signal.SIGUSR1  # on this signal a job writes the stack of each thread to its log
SLOW = 10  # a batch may take this many times the median time before the job counts as hanging
Progress = tuple[int, object, object]  # (finished batches, step, phase)


@dataclass
class Breaker:
    """A circuit breaker. It trips after equal failures in a row, or when the budget is spent.

    Attributes:
        policy: the options of the sweep, which set both limits.
        spent_h: the device hours of finished runs, including those of earlier sweeps.
        tripped: the reason why no more jobs start. Empty while jobs may start.
    """

    policy: SweepOptions
    spent_h: float = 0.0
    tripped: str = ""
    _alike: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.done(0.0)

    def done(self, hours: float) -> None:
        """Add the device hours of a finished run, and reset the count of equal failures."""
        self._alike.clear()
        self.spent_h += hours
        limit = self.policy.budget_device_hours
        if limit is not None and self.spent_h >= limit and not self.tripped:
            self.tripped = (
                f"hydra.sweeper.budget_device_hours={limit:g} is spent ({self.spent_h:.2g} in "
                "total); to continue, repeat the command with a larger budget"
            )

    def failed(self, run: str, status: Status) -> None:
        """Count the failure of a run that will not start again."""
        if status.cause in OWN or not self.policy.equal_failures:
            return
        reason = re.sub(r"\d+", "#", status.reason.replace(run, "#"))
        if self._alike and self._alike[-1] != reason:
            self._alike.clear()
        self._alike.append(reason)
        if len(self._alike) == self.policy.equal_failures and not self.tripped:
            count = len(self._alike)
            self.tripped = (
                f"{count} runs in a row failed for the same reason ({status.reason})"
            )


def hours(store: RunStore, runs: Iterable[str]) -> float:
    """Return the sum of the device hours of these runs. A run that is not done counts as 0."""
    every = ((run, run.status().seconds) for run in map(store.run, runs))
    return sum(
        device_hours(run.record().config, seconds) for run, seconds in every if seconds
    )


@dataclass
class _Watched:
    """The progress of one attempt that the watchdog observed.

    Attributes:
        progress: the last progress.
        since: the time of the last progress.
        paces: the seconds per batch of the last batches.
        sent: the last signal that was sent to the attempt.
        sent_at: the time of this signal.
    """

    progress: Progress
    since: float
    paces: deque[float] = field(default_factory=lambda: deque(maxlen=20))
    sent: signal.Signals | None = None
    sent_at: float = 0.0


@dataclass
class Watchdog:
    """A watchdog for running attempts. If an attempt hangs, `due` returns the signal to send.

    A process that writes heartbeats may still hang, such as in an endless loop of a library. So
    only finished batches (`work` in the heartbeat) and changes of step and phase count as progress.
    A hanging attempt first gets SIGUSR1, then SIGTERM, and after `grace_s` seconds SIGKILL.
    """

    limit_s: float
    grace_s: float
    clock: Callable[[], float] = time.monotonic
    _watched: dict[str, _Watched] = field(default_factory=dict)

    def due(
        self, attempt: str, heartbeat: Mapping[str, Any] | None
    ) -> signal.Signals | None:
        """Return the signal to send now to the attempt with this heartbeat, or None."""
        now, beat = self.clock(), heartbeat or {}
        progress: Progress = (
            int(beat.get("work", 0)),
            beat.get("step"),
            beat.get("phase"),
        )
        seen = self._watched.setdefault(
            attempt, _Watched((progress[0], None, None), now)
        )
        if seen.sent is DUMP:
            return self._send(seen, signal.SIGTERM, now)
        # Progress after SIGTERM does not count, as it may be the last batch before the end.
        if seen.sent is not None:
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
        """Describe how an attempt hung. Return "" if this watchdog sent it no signal."""
        seen = self._watched.get(attempt)
        if seen is None or seen.sent is None:
            return ""
        limit = self._limit(seen)
        return (
            f"no batch finished for {limit:.0f} s; its log has the stack of each thread"
        )

    def _limit(self, seen: _Watched) -> float:
        return (
            max(self.limit_s, SLOW * median(seen.paces)) if seen.paces else self.limit_s
        )

    def _send(
        self, seen: _Watched, number: signal.Signals, now: float
    ) -> signal.Signals:
        seen.sent, seen.sent_at = number, now
        return number
