"""Reactions to failed jobs: start again, wait, or stop the sweep."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar

from sweeper.run.backend import LimitedOptions, at_least, device_hours
from sweeper.store.attempts import Cause
from sweeper.store.runs import RunStore, Status

LONGEST_WAIT_S = 600.0
# Another start may mend these. Runs are deterministic, so any other failure would repeat.
TRANSIENT = (Cause.INTERRUPTED, Cause.KILLED, Cause.HANG, Cause.DISK_FULL)
# Caused by a run's own settings: they say nothing about the other runs.
OWN = (Cause.NAN, Cause.OUT_OF_GPU_MEMORY, Cause.OUT_OF_HOST_MEMORY)


class OnOom(StrEnum):
    """The reaction to a run that is out of GPU memory."""

    fail = "fail"
    halve = "halve"


@dataclass
class Policy(LimitedOptions):
    """The keys of `hydra.sweeper` about failures (conf/hydra/sweeper/headroom.yaml)."""

    section: ClassVar[str] = "hydra.sweeper"
    tries: Annotated[int, at_least(1)]
    wait_s: Annotated[float, at_least(0)]
    equal_failures: Annotated[int, at_least(0)]
    fail_fast: bool
    on_oom: OnOom

    def again(self, status: Status, tries: int) -> bool:
        """Return whether a run that ended with `status` starts again after `tries` starts.

        After a full disk it always does: the run is not at fault.
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
        """Return the seconds before the next start; they double with each failed start."""
        return float(min(LONGEST_WAIT_S, self.wait_s * 2 ** (min(tries, 32) - 1)))


@dataclass
class Budget:
    """Device hours that a sweep may spend.

    Attributes:
        limit_h: None for no limit.
        spent_h: device hours of finished runs, those of earlier sweeps included.
    """

    limit_h: float | None = None
    spent_h: float = 0.0


@dataclass
class Breaker:
    """The decision to start nothing more: after equal failures, or when the budget is spent.

    Attributes:
        tripped: why nothing more starts; empty while jobs start.
    """

    policy: Policy
    budget: Budget = field(default_factory=Budget)
    tripped: str = ""
    _alike: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.done(0.0)

    def done(self, hours: float) -> None:
        """Count a finished run of `hours` device hours; earlier failures had their own reasons."""
        self._alike.clear()
        self.budget.spent_h += hours
        limit = self.budget.limit_h
        if limit is not None and self.budget.spent_h >= limit and not self.tripped:
            self.tripped = (
                f"hydra.sweeper.budget_device_hours={limit:g} is spent "
                f"({self.budget.spent_h:.2g} in all); repeat the command with more to go on"
            )

    def failed(self, run: str, status: Status) -> None:
        """Count a run that failed for good."""
        if self.policy.fail_fast:
            self.tripped = self.tripped or f"{run} failed and hydra.sweeper.fail_fast=true"
        if status.cause in OWN or not self.policy.equal_failures:
            return
        reason = re.sub(r"\d+", "#", status.reason)
        if self._alike and self._alike[-1] != reason:
            self._alike.clear()
        self._alike.append(reason)
        if len(self._alike) == self.policy.equal_failures and not self.tripped:
            self.tripped = f"{len(self._alike)} runs in a row failed alike ({status.reason})"


def hours(store: RunStore, runs: Iterable[str]) -> float:
    """Return the device hours of those of the runs that are done."""
    every = ((run, run.status().seconds) for run in map(store.run, runs))
    return sum(device_hours(run.record()["config"], seconds) for run, seconds in every if seconds)
