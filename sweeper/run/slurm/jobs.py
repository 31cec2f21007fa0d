"""Jobs as the backend keeps them, and what becomes of the runs of one whose end is seen."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from sweeper.run.backend import Resources
from sweeper.store.runs import Run, State

# States after which Slurm does nothing more for a job (squeue, JOB STATE CODES).
OVER = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT "
    "REVOKED GONE".split()
)
# Those that are the cluster's doing: a run counts none of them as a try.
TAKEN_AWAY = frozenset("BOOT_FAIL NODE_FAIL PREEMPTED REVOKED".split())
# What a further start would not mend, whatever the run's record says.
FINAL = {"CANCELLED": "was cancelled", "OUT_OF_MEMORY": "was killed for its use of host memory"}
NEVER = "never handed in"


@dataclass(eq=False)
class SlurmJob:
    """A job in the queue, or one that is yet to be handed in.

    Attributes:
        parent: the run that its runs have for a parent.
        id: Slurm's, of the last time that it was handed in.
        runs: by handle, those that the schedule was not told to have ended, of several (`packed`).
        seconds: what they are thought to take, one after the other.
        after: the handle of their parent, if that was under way.
        held_by: the job that Slurm makes it wait for, that of the parent.
        ending: whether it was told to end.
    """

    needed: Resources
    parent: str | None
    slot: int
    id: str = ""
    handed_in: bool = False
    state: str = "PENDING"
    runs: dict[int, Path] = field(default_factory=dict)
    seconds: float = 0.0
    packed: bool = False
    after: int | None = None
    held_by: str = ""
    ending: bool = False
    _look_at: float = 0.0

    def add(self, number: int, run: Path, after: int | None) -> None:
        """Have it train one more run."""
        self.runs[number], self.after = run, after
        self.packed = self.packed or len(self.runs) > 1

    def over(self, rarely: float) -> list[int]:
        """The runs that have ended by now. A job that was taken away is to be handed in again, and
        so is one of several runs with what it had not begun when it ended.

        `rarely`: the seconds between two looks at the runs of a job that goes on.
        """
        if self.state not in OVER:
            return self._done() if self.packed and self._due(rarely) else []
        done = self._done() if self.packed or self.state in TAKEN_AWAY else []
        left = done
        if self.state not in TAKEN_AWAY:
            begun = [number for number, run in self.runs.items() if Run(run).attempts()]
            left = begun if self.packed and begun and self.state != "CANCELLED" else [*self.runs]
        if self.ending or len(left) == len(self.runs):
            return [*self.runs]
        self.handed_in = False
        return left

    def _due(self, rarely: float) -> bool:
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + rarely
        return True

    def _done(self) -> list[int]:
        """Those that have a result, or have failed; of one without a word its job's end will tell.

        They are begun in order: behind one that was not there is nothing to see yet.
        """
        found = []
        for number, run in self.runs.items():
            state = Run(run).status().state
            if state is State.NEW:
                break
            if state in (State.DONE, State.FAILED):
                found.append(number)
        return found

    def final(self, parent: SlurmJob | None) -> str:
        """Why no further start would mend how it ended, in words; empty if one might."""
        dropped = parent is not None and (
            parent.id != self.held_by or parent.state in OVER - {"COMPLETED"}
        )
        if self.state not in FINAL or (self.state == "CANCELLED" and self.held_by and dropped):
            return ""
        return f"its Slurm job {self.id} {FINAL[self.state]}"
