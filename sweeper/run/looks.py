"""How far running runs are, read from their files: as often as serves, and no oftener.

A look is some questions to the file server, and of hundreds of runs each would be asked for twice
a second, though a job tells of itself every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sweeper.run.job_states import JobState
from sweeper.store.runs import RunStore, State

LEAST_S = 1.0  # between two looks at the same run
PER_S = 10  # looks, all together


@dataclass
class Looks:
    """Looks at the runs of a schedule."""

    store: RunStore
    every_s: float = LEAST_S
    _due: float = 0.0
    _done: set[str] = field(default_factory=set)

    def at(self, running: Sequence[JobState]) -> bool:
        """Note the status of each run, unless that was done a moment ago; whether it was done."""
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + max(self.every_s, len(running) / PER_S if self.every_s else 0.0)
        for state in running:
            state.status = self.store.run(state.job.run).status()
        return True

    def done(self, run: str) -> bool:
        """Whether a run is done that is in no schedule: asked until it is."""
        if run not in self._done and self.store.run(run).status().state is State.DONE:
            self._done.add(run)
        return run in self._done
