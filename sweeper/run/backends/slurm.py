"""Runs as Slurm jobs: arrays of equal jobs, children after parents, small runs several in a job.

Everything that the cluster takes is in the queue soon after the sweep began, and goes on without
it; the rest follows as room comes. The same command again takes over what is queued:
outputs/slurm/<run>.json says which job a run was handed in as. Slurm, not the sweep, starts a
preempted job again; one that reaches its time limit saves and asks for that itself (see
slurm/job.py). The queue is asked; accounting, where there is one, only for jobs that the queue has
forgotten.
"""

from __future__ import annotations

import itertools
import math
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from sweeper.run.backend import Backend, BackendContext, Job, Resources
from sweeper.run.slurm import queue
from sweeper.run.slurm.intake import Intake
from sweeper.run.slurm.job import place
from sweeper.run.slurm.jobs import NEVER, SlurmJob
from sweeper.run.slurm.limits import Limits, limits
from sweeper.run.slurm.options import Options
from sweeper.run.slurm.submission import NotNow, hand_in, leave, refuse_shared
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.files import read_object
from sweeper.store.identity import digest_of

__all__ = ["Options", "SlurmBackend", "backend"]

SILENT = "Slurm does not answer; what is queued goes on"
_QUESTIONS = 8  # to the file server, of a look at the runs of a job that has several
_A_SECOND = 0.5  # of them, so many at most, however many jobs there are


def backend(context: BackendContext) -> SlurmBackend:
    """The queue of the cluster that this machine can submit to.

    Raises:
        UserError: an option that cannot be, no Slurm, no submitit, or a folder others may write to.
    """
    try:
        import submitit  # noqa: F401
    except ImportError:
        remedy = "pip install 'headroom-attention[slurm]'"
        raise invalid_value("hydra/launcher", "slurm", "submitit to be installed", remedy) from None
    if not shutil.which("sbatch"):
        expected = "a machine from which Slurm jobs can be submitted, but there is no sbatch"
        raise invalid_value("hydra/launcher", "slurm", expected, "log in to one")
    if context.outputs.exists():
        refuse_shared(context.outputs)  # asked again before each job is handed in
    return SlurmBackend(context, limits(context.options))


class SlurmBackend(Backend):
    """Hands runs in, a whole batch at a time, and watches the queue. A slot is a job there."""

    queues = True
    poll_s = 30.0

    def __init__(self, context: BackendContext, most: Limits) -> None:
        self._options: Options = context.options
        self._outputs = context.outputs.resolve()
        self._resources = context.resources
        self._most = most
        self._intake = Intake(self._hand_in, most.array)
        self._silent = False
        self._jobs: list[SlurmJob] = []  # those with runs that have not ended
        self._of: dict[int, SlurmJob] = {}  # by the handle of every run that was started
        self._begun: set[Path] = set()
        self._granted: SlurmJob | None = None
        self._earlier: dict[str, str] | None = None  # what the queue held when it was first asked
        self._sent: set[tuple[str, int]] = set()
        self._numbers = itertools.count(1)
        self._next_look = 0.0
        self._looked = False  # at the queue, since something was handed in

    @property
    def slots(self) -> int:
        return min(self._options.jobs, self._most.jobs)

    @property
    def device(self) -> str:
        return "gpu" if any(map(self._options.gpus, self._resources)) else "cpu"

    @property
    def note(self) -> str:
        return SILENT if self._silent else self._intake.refusal

    def grant(self, job: Job, free: Sequence[int]) -> int | None:
        """The slot of a job that has room for this run too, or that an earlier sweep handed it in
        as; else a free one. None until Slurm has said what is in the queue."""
        if self._earlier is None:
            self._earlier = queue.names()
            self._silent = self._earlier is None
        if self._earlier is None:
            return None
        run = self._outputs / "runs" / job.run
        earlier, needed = self._queued(run), Resources.of_record(run)
        seconds = math.inf if job.seconds is None else job.seconds
        found = SlurmJob(needed, job.parent, -1, earlier, handed_in=bool(earlier))
        for known in self._jobs:
            if known.id == earlier if earlier else self._has_room(known, found, seconds):
                found = known
                break
        if found.slot < 0:
            if not free:
                return None
            found.slot = free[0]
            self._jobs.append(found)
        found.seconds += seconds
        self._granted = found
        return found.slot

    def _has_room(self, job: SlurmJob, other: SlurmJob, seconds: float) -> bool:
        if job.handed_in or (job.needed, job.parent) != (other.needed, other.parent):
            return False
        return job.needed.nodes == 1 and job.seconds + seconds <= self._options.longest_s

    def _queued(self, run: Path) -> str:
        """The id of the job that an earlier sweep handed this run in as, if it is still there."""
        said = read_object(place(run), keys=("job", "name"))
        if said is None or run in self._begun:
            return ""
        there = (self._earlier or {}).get(said["job"]) == said["name"]
        return str(said["job"]) if there else ""

    def start(self, run: Path, slot: int, after: int | None = None) -> int:
        """Put the run that was granted its slot into the job of that."""
        assert self._granted is not None
        number, job = next(self._numbers), self._granted
        job.add(number, run.resolve(), after)
        if job.handed_in and after:
            job.held_by = self._of[after].id
        self._of[number] = job
        self._begun.add(run.resolve())
        return number

    def ended(self, timeout: float) -> list[int]:
        if self._looked or not self.note:
            self._intake.take(self._jobs, self._of)
            self._looked = False
        time.sleep(timeout)
        if time.monotonic() < self._next_look:
            return []
        states = queue.states()
        self._next_look = time.monotonic() + self._options.poll_s
        self._looked, self._silent = True, states is None
        if states is None:  # the jobs go on all the same
            return []
        handed_in = [job for job in self._jobs if job.handed_in]
        forgotten = {job.id for job in handed_in} - states.keys() - {NEVER}
        states |= queue.accounted(forgotten) if forgotten else {}
        over, rarely = [], max(self.poll_s, _QUESTIONS * len(handed_in) / _A_SECOND)
        for job in handed_in:
            job.state = states.get(job.id, "GONE")
            ended = job.over(rarely)
            job.runs = {number: run for number, run in job.runs.items() if number not in ended}
            over += ended
        self._jobs = [job for job in self._jobs if job.runs]
        return over

    def begun(self, job: int) -> bool:
        return self._of[job].state != "PENDING"

    def leave(self, command: Sequence[str]) -> str:
        name = digest_of([*command, str(Path.cwd())])[:12]
        there = queue.names()
        if there is None:
            raise UserError(f"hydra.launcher.leave=true: {SILENT}; try again later.")
        job = next((id for id, known in there.items() if known == name), "")
        try:
            job = job or leave(self._outputs, name, self._options, command, self.code)
        except NotNow as refusal:
            raise UserError(f"hydra.launcher.leave=true: {refusal}; try again later.") from None
        return (
            f"the sweep is Slurm job {job} and needs nothing here; its log: "
            f"{self._outputs / 'slurm' / name / job}_0_log.out; where it stands: python -m sweeper "
            "status, or the same command again"
        )

    def signal(self, job: int, number: int) -> None:
        """Cancel what waits and signal what runs; a job of several runs is asked to end once."""
        its = self._of[job]
        ends = number in queue.ENDS
        its.ending |= ends
        if not its.handed_in:
            its.id, its.handed_in = NEVER, True
        elif not (ends and (its.id, number) in self._sent):
            self._sent.add((its.id, number))
            queue.send(its.id, signal.Signals(number))

    def exit_reason(self, job: int) -> str:
        ended = self._of[job]
        return ended.final(self._of.get(ended.after or 0))

    def _hand_in(
        self, jobs: Sequence[Sequence[Path]], needed: Resources, held_by: str
    ) -> list[str]:
        return hand_in(self._outputs, jobs, self._options, needed, held_by, self.code)
