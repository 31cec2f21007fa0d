"""What is to be handed in goes to Slurm as fast as that takes it, in arrays as large as it lets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sweeper.run.backend import Resources
from sweeper.run.slurm.jobs import NEVER, OVER, SlurmJob
from sweeper.run.slurm.submission import NotNow

HandIn = Callable[[Sequence[Sequence[Path]], Resources, str], list[str]]
"""Takes the runs of each job, what a run needs and the job to wait for; returns the ids of jobs."""


@dataclass
class Intake:
    """Hands jobs in; `refusal` is what Slurm said to the last that it did not take, if any."""

    hand_in: HandIn
    most: int  # jobs of one array
    refusal: str = ""
    _next: int = field(init=False)  # jobs of the next array: fewer once as many were refused

    def __post_init__(self) -> None:
        self._next = self.most

    def take(self, jobs: Sequence[SlurmJob], of: Mapping[int, SlurmJob]) -> None:
        """Hand in what was not yet, but for what waits for a parent that was not; `of` gives the
        job of a run by its handle."""
        batches: dict[tuple[Resources, str], list[SlurmJob]] = {}
        for job in jobs:
            held_by = None if job.handed_in else _held_by(job, of.get(job.after or 0))
            if held_by == NEVER:
                job.id, job.handed_in = NEVER, True
            elif held_by is not None:
                batches.setdefault((job.needed, held_by), []).append(job)
        self.refusal = ""
        for (needed, held_by), batch in batches.items():
            while batch and not self.refusal:
                batch = batch[self._submitted(batch[: self._next], needed, held_by) :]

    def _submitted(self, jobs: Sequence[SlurmJob], needed: Resources, held_by: str) -> int:
        """How many of the jobs were taken: all, or none, and the next array has half as many."""
        try:
            ids = self.hand_in([[*job.runs.values()] for job in jobs], needed, held_by)
        except NotNow as refused:
            self._next = max(1, len(jobs) // 2)
            self.refusal = str(refused) if len(jobs) == 1 else ""
            return 0
        for job, id in zip(jobs, ids, strict=True):
            job.id, job.handed_in, job.held_by, job.state = id, True, held_by, "PENDING"
        self._next = min(self.most, 2 * self._next)
        return len(jobs)


def _held_by(job: SlurmJob, parent: SlurmJob | None) -> str | None:
    """The job to wait for, empty if there is none; None while that has no id; NEVER: it failed."""
    if parent is None or job.after not in parent.runs:
        return ""  # ended: the schedule knows how
    if not parent.handed_in:
        return None
    return NEVER if parent.state in OVER - {"COMPLETED"} else parent.id
