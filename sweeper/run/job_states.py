"""The runs of a sweep as a schedule keeps them: what each costs, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sweeper.run.placing import Share
from sweeper.store.runs import Status


@dataclass(frozen=True)
class Job:
    """What the schedule needs to know of a run."""

    run: str
    cost: float  # training FLOPs
    parent: str | None = None
    share: Share | None = None  # of a GPU; without one it has a slot's GPU to itself
    rank: int = 0  # what has a lower one starts first


class Phase(StrEnum):
    """Where a run stands in this sweep."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"


@dataclass
class JobState:
    """A run in this sweep. `handle` is None while another sweep's process trains it."""

    job: Job
    phase: Phase = Phase.WAITING
    slot: int | None = None
    handle: int | None = None
    tries: int = 0
    """Starts since the last one that got further than those before it."""
    furthest: int = 0
    not_before: float = 0.0
    reason: str = ""
    status: Status | None = None
    """While it runs: as of the last look at its files."""

    def measure(self, status: Status) -> None:
        """Start counting anew if an attempt that has ended got further than those before it."""
        step = (status.heartbeat or {}).get("step", 0)
        if step > self.furthest:
            self.furthest, self.tries = step, 1


def counts(states: Mapping[str, JobState]) -> dict[Phase, int]:
    """How many runs are in each phase."""
    return {phase: sum(e.phase is phase for e in states.values()) for phase in Phase}
