"""How far running runs are, read from their files: as often as serves, and no oftener.

A look is some questions to the file server, and of hundreds of runs each would be asked for twice
a second, though a job tells of itself every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sweeper.run.job_states import JobState
from sweeper.store.runs import Run, RunStore, State, Status
from sweeper.store.states import running as still_running

MANY = 15  # running runs; of more, each is looked at the more rarely


@dataclass
class Looks:
    """Looks at the runs of a schedule."""

    store: RunStore
    every_s: float  # between two looks at the same run, at least
    _due: float = 0.0
    _runs: dict[str, Run] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _waits: tuple[str, float, State] = ("", 0.0, State.NEW)

    def at(self, running: Sequence[JobState]) -> bool:
        """Note the status of each run, unless that was done a moment ago; whether it was done."""
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + self.every_s * max(1.0, len(running) / MANY)
        for state in running:
            state.status = self._status(state)
        return True

    def before(self, run: str) -> State:
        """How a run stands whose turn has come; while it waits for room, as of a moment ago."""
        asked, until, state = self._waits
        now = time.monotonic()
        if asked != run or now >= until:
            state = self.store.run(run).status().state
            if state not in (State.DONE, State.RUNNING):
                self._waits = run, now + self.every_s, state
        return state

    def done(self, run: str) -> bool:
        """Whether a run is done that is in no schedule: asked until it is."""
        if run not in self._done and self.store.run(run).status().state is State.DONE:
            self._done.add(run)
        return run in self._done

    def _status(self, state: JobState) -> Status:
        """One question while nothing but its heartbeat, or nothing at all, has changed."""
        name, known = state.job.run, state.status
        run = self._runs.get(name) or self._runs.setdefault(name, self.store.run(name))
        if known and known.state is State.NEW and not run.attempts():
            return known
        if known and known.state is State.RUNNING:
            beat = run.attempt(known.attempt).last_heartbeat()
            if beat and beat != known.heartbeat:
                return still_running(known.attempt, beat)
        return run.status()
