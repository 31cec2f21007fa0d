"""What a sweep does when a job has ended without a result: again, later, or never again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar

from sweeper.run.backend import JobState, LimitedOptions, Phase, at_least, device_hours
from sweeper.store.attempts import Cause
from sweeper.store.runs import RunStore, Status

if TYPE_CHECKING:
    from sweeper.run.schedule import Schedule

LONGEST_WAIT_S = 600.0
# What a further start may mend. Anything else would only repeat itself: runs are deterministic.
TRANSIENT = (Cause.INTERRUPTED, Cause.KILLED, Cause.HANG, Cause.DISK_FULL)
# What a run's own setting brings about; it says nothing about the next run, however often it comes.
OWN = (Cause.NAN, Cause.OUT_OF_GPU_MEMORY, Cause.OUT_OF_HOST_MEMORY)


class OnOom(StrEnum):
    """What happens to a run that was out of GPU memory."""

    fail = "fail"
    halve = "halve"


@dataclass
class Policy(LimitedOptions):
    """The keys of `hydra.sweeper` that say what happens after a failure; see conf/."""

    section: ClassVar[str] = "hydra.sweeper"
    tries: Annotated[int, at_least(1)]
    wait_s: Annotated[float, at_least(0)]
    equal_failures: Annotated[int, at_least(0)]
    fail_fast: bool
    on_oom: OnOom

    def again(self, status: Status, tries: int) -> bool:
        """Whether a run that ended like this after `tries` starts in vain is started once more.

        A full disk is no fault of the run, and nobody is served by giving up on it.
        """
        if self.fail_fast or status.cause not in TRANSIENT:
            return False
        return status.cause is Cause.DISK_FULL or tries < self.tries

    def halves(self, *, auto: bool) -> bool:
        """Return whether a run that is out of GPU memory starts again with half the rows at a time.

        `auto` says that the run itself asks for it, by `trainer.micro_batches=auto`.
        """
        return (auto or self.on_oom is OnOom.halve) and not self.fail_fast

    def wait(self, tries: int) -> float:
        """Seconds before the next start: doubled with each one in vain."""
        return float(min(LONGEST_WAIT_S, self.wait_s * 2 ** (min(tries, 32) - 1)))


@dataclass
class Breaker:
    """Stops a sweep whose runs fail one after the other in the same way."""

    policy: Policy
    tripped: str = ""
    """Why nothing more is started; empty while things go on."""
    _alike: list[str] = field(default_factory=list)

    def done(self) -> None:
        """A run has finished: what failed before it failed for reasons of its own."""
        self._alike.clear()

    def failed(self, run: str, status: Status) -> None:
        """A run has failed for good."""
        if self.policy.fail_fast:
            self.tripped = self.tripped or f"{run} failed and hydra.sweeper.fail_fast=true"
        if status.cause in OWN or not self.policy.equal_failures:
            return
        way = re.sub(r"\d+", "#", status.reason)
        if self._alike and self._alike[-1] != way:
            self._alike.clear()
        self._alike.append(way)
        if len(self._alike) == self.policy.equal_failures and not self.tripped:
            self.tripped = f"{len(self._alike)} runs in a row failed alike ({status.reason})"


def hours(store: RunStore, runs: Iterable[str]) -> float:
    """Device hours of those of the runs that are done."""
    every = ((run, run.status().seconds) for run in map(store.run, runs))
    return sum(device_hours(run.record()["config"], seconds) for run, seconds in every if seconds)


@dataclass
class Budget:
    """Stops a sweep that has spent its device hours; with no limit nothing is counted.

    Attributes:
        spent_h: device hours of runs that are done, those of earlier sweeps included.
    """

    limit_h: float | None
    spent_h: float = 0.0

    def changed(self, schedule: Schedule, state: JobState | None) -> None:
        """A run changed its phase; None: look before anything has begun."""
        if self.limit_h is None:
            return
        if state is not None and state.phase is Phase.DONE:
            self.spent_h += hours(schedule.store, [state.job.run])
        if self.spent_h >= self.limit_h and not schedule.breaker.tripped:
            spent = f"hydra.sweeper.budget_device_hours={self.limit_h:g} is spent"
            more = "typed again with more, it goes on"
            schedule.breaker.tripped = f"{spent} ({self.spent_h:.2g} in all); {more}"
