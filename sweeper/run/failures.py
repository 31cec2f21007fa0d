"""Reactions to failures. A watchdog kills hanging jobs. A breaker prevents further starts."""

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

# A run's own settings cause these failures, so the circuit breaker does not count them.
OWN = (Cause.NAN, Cause.OUT_OF_GPU_MEMORY, Cause.OUT_OF_HOST_MEMORY)

DUMP = signal.SIGUSR1  # makes a job write the stack of each thread to its log
# A job counts as hanging only if its batch has taken this many times as long as the median batch.
SLOW = 10
Progress = tuple[int, object, object]  # (finished batches, step, phase)


@dataclass
class Breaker:
    """A circuit breaker, which prevents further starts of jobs.

    It trips when several runs in a row fail for the same reason, or when the budget is spent.

    Attributes:
        policy: the options of the sweep. They set the number of equal failures and the budget.
        spent_h: the device hours of finished runs, including runs of earlier sweeps.
        tripped: why the breaker has tripped, or "" while jobs may start.
    """

    policy: SweepOptions
    spent_h: float = 0.0
    tripped: str = ""
    _reason: str = ""
    _alike: int = 0

    def __post_init__(self) -> None:
        self.done(0.0)

    def done(self, hours: float) -> None:
        """Add the device hours of a finished run, and reset the count of equal failures."""
        self._alike = 0
        self.spent_h += hours
        limit = self.policy.budget_device_hours
        if limit is not None and self.spent_h >= limit and not self.tripped:
            self.tripped = (
                f"hydra.sweeper.budget_device_hours={limit:g} is spent: the finished runs took "
                f"{self.spent_h:.5g} device hours; to continue, repeat the command with a larger "
                "budget"
            )

    def failed(self, run: str, status: Status) -> None:
        """Count a failed run that the schedule will not start again.

        Trip the breaker after `policy.equal_failures` failures in a row for the same reason. Ignore
        failures that the run's own settings cause (see OWN).
        """
        if status.cause in OWN:
            return
        reason = re.sub(r"\d+", "#", status.reason.replace(run, "#"))
        self._alike = self._alike + 1 if reason == self._reason else 1
        self._reason = reason
        if self._alike == self.policy.equal_failures and not self.tripped:
            self.tripped = (
                f"{self._alike} runs in a row failed for the same reason ({status.reason}); "
                "correct the cause, and repeat the command"
            )


def hours(store: RunStore, runs: Iterable[str]) -> float:
    """Return the sum of the device hours of these runs. A run that is not done counts as 0."""
    total = 0.0
    for run in map(store.run, runs):
        if seconds := run.status().seconds:
            total += device_hours(run.record().config, seconds)
    return total


@dataclass
class _Watched:
    """The watchdog's observations of one attempt.

    Attributes:
        progress: the progress at the last poll.
        since: the time when the progress last changed.
        paces: the durations of recent batches, in seconds.
        sent: the last signal that the watchdog sent, or None.
        sent_at: when the watchdog sent it.
    """

    progress: Progress
    since: float
    paces: deque[float] = field(default_factory=lambda: deque(maxlen=20))
    sent: signal.Signals | None = None
    sent_at: float = 0.0


@dataclass
class Watchdog:
    """A watchdog for running attempts. If an attempt hangs, `due` returns the signal to send.

    Only finished batches (`work` in the heartbeat) and changes of step and phase count as progress.
    Heartbeats do not, because a hanging process may still write them. A hanging attempt first gets
    SIGUSR1, so that it writes the stack of each thread to its log. Then it gets SIGTERM, and
    `grace_s` seconds later SIGKILL.

    Attributes:
        limit_s: the longest time without progress, in seconds. If batches are slow, the limit is
            longer (see SLOW).
        grace_s: the seconds between SIGTERM and SIGKILL.
        clock: a function that returns the time in seconds.
    """

    limit_s: float
    grace_s: float
    clock: Callable[[], float] = time.monotonic
    _watched: dict[str, _Watched] = field(default_factory=dict)

    def due(
        self, attempt: str, heartbeat: Mapping[str, Any] | None
    ) -> signal.Signals | None:
        """Return the signal to send now to an attempt that has this heartbeat, or None."""
        now, newest = self.clock(), heartbeat or {}
        work = int(newest.get("work", 0))
        progress: Progress = (work, newest.get("step"), newest.get("phase"))
        seen = self._watched.setdefault(attempt, _Watched((work, None, None), now))
        number: signal.Signals | None = None
        if seen.sent is DUMP:
            number = signal.SIGTERM
        elif seen.sent is not None:
            # After SIGTERM, ignore progress: the attempt may only be finishing its last batch.
            if now - seen.sent_at > self.grace_s:
                number = signal.SIGKILL
        elif progress != seen.progress:
            done = work - seen.progress[0]
            if done > 0:
                seen.paces.append((now - seen.since) / done)
            seen.progress, seen.since = progress, now
        elif now - seen.since > self._limit(seen):
            number = DUMP
        if number:
            seen.sent, seen.sent_at = number, now
        return number

    def hung(self, attempt: str) -> str:
        """Describe how an attempt hung. Return "" if this watchdog sent it no signal."""
        seen = self._watched.get(attempt)
        if seen is None or seen.sent is None:
            return ""
        limit = self._limit(seen)
        return (
            f"no batch finished for {limit:.0f} s; the log has the stack of each thread"
        )

    def _limit(self, seen: _Watched) -> float:
        return max(self.limit_s, SLOW * median(seen.paces or [0.0]))
