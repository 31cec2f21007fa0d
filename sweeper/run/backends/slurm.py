"""Runs as Slurm jobs: arrays of equal jobs, children after their parents, small runs in one job.

Soon after a sweep begins the queue holds everything that the cluster takes, and goes on without the
sweep; the rest follows as jobs end. The same command typed again takes over what is queued:
outputs/slurm/<run>.json names the job of each run. Slurm, not the sweep, starts a preempted job
again; a job at its time limit saves and requeues itself (see slurm_job.py). The backend polls
squeue, and asks sacct only about jobs that squeue has forgotten.
"""

from __future__ import annotations

import itertools
import math
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sweeper.run import slurm_cluster
from sweeper.run.backend import Backend, BackendContext, Job, Resources
from sweeper.run.slurm_cluster import ENDS, OVER, Limits, NotNow, Options, refuse_shared
from sweeper.run.slurm_job import job_file
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.files import read_object
from sweeper.store.identity import digest_of
from sweeper.store.runs import Run, State

__all__ = ["Options", "SlurmBackend", "backend"]

SILENT = "Slurm does not answer; what is queued goes on"
TAKEN_AWAY = frozenset("BOOT_FAIL NODE_FAIL PREEMPTED REVOKED".split())
"""States that are the cluster's doing. The job is submitted again, which is no try of its runs."""
FINAL = {"CANCELLED": "was cancelled", "OUT_OF_MEMORY": "was killed for its use of host memory"}
"""States of a job whose runs are not started again, whatever their records say."""
_FAILED = OVER - {"COMPLETED"}
_POLL_PER_JOB_S = 16.0  # a poll of its runs is eight requests to the file server: two seconds each


def backend(context: BackendContext) -> SlurmBackend:
    """Return a backend on the cluster that this machine can submit to.

    Raises:
        UserError: an option that cannot be, no Slurm, no submitit, a folder others may write to, or
            runs that no node has room for.
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
        refuse_shared(context.outputs)  # checked again before each submission
    for needed in context.resources:
        slurm_cluster.check_room(context.options, needed)
    return SlurmBackend(context, slurm_cluster.read_limits(context.options))


@dataclass(eq=False)
class SlurmJob:
    """A job in Slurm's queue, or one that is to be submitted.

    Attributes:
        needed: resources of each of its runs.
        parent: the run that its runs continue, if there is one.
        id: Slurm's id of its last submission.
        submitted: whether it is in the queue, or has ended there.
        runs: its runs that the schedule does not know to have ended, by handle.
        seconds: the expected time of its runs, one after the other.
        shared: whether it has, or had, several runs.
        after: the handle of the parent, if that had not ended.
        held_by: the id of the job that Slurm makes it wait for.
        stopping: the last signal by which the sweep has asked it to end, or 0.
    """

    needed: Resources
    parent: str | None
    slot: int
    id: str = ""
    submitted: bool = False
    state: str = "PENDING"
    runs: dict[int, Path] = field(default_factory=dict)
    seconds: float = 0.0
    shared: bool = False
    after: int | None = None
    held_by: str = ""
    stopping: int = 0
    _next_poll: float = 0.0

    def ended(self, poll_s: float) -> list[int]:
        """Return the runs that have ended; poll those of a job that goes on every `poll_s`.

        If the cluster took the job away, or if it ended before it had begun all of its runs, the
        rest of them is submitted again.
        """
        if self.state not in OVER:
            if not self.shared or time.monotonic() < self._next_poll:
                return []
            self._next_poll = time.monotonic() + poll_s
            return self._finished()
        ended = [*self.runs]
        if not self.stopping and self.state in TAKEN_AWAY:
            ended = self._finished()
        elif not self.stopping and self.shared and self.state != "CANCELLED":
            ended = [handle for handle, run in self.runs.items() if Run(run).attempts()] or ended
        if len(ended) < len(self.runs):
            self.submitted = False
        return ended

    def _finished(self) -> list[int]:
        """Return the runs that have a result or have failed.

        Runs are begun in order, so no run after one that is new needs to be read.
        """
        found = []
        for handle, run in self.runs.items():
            state = Run(run).status().state
            if state is State.NEW:
                break
            if state in (State.DONE, State.FAILED):
                found.append(handle)
        return found


class SlurmBackend(Backend):
    """Submits runs, many at a time, and polls the queue. A slot is a job there."""

    queues = True
    poll_s = 30.0

    def __init__(self, context: BackendContext, limits: Limits) -> None:
        self._options: Options = context.options
        self._outputs = context.outputs.resolve()
        self._resources = context.resources
        self._limits = limits
        self._array_size = limits.array  # of the next array; smaller after a refusal
        self._refusal = ""  # sbatch's answer to the last submission that it did not take
        self._silent = False
        self._jobs: list[SlurmJob] = []  # those with runs that have not ended
        self._of: dict[int, SlurmJob] = {}  # by the handle of every run that was started
        self._begun: set[Path] = set()
        self._granted: SlurmJob | None = None  # the job of the run that starts next
        self._earlier: dict[str, str] | None = None  # names in the queue at first, by id
        self._handles = itertools.count(1)
        self._next_poll = 0.0
        self.slots = min(self._options.jobs, limits.jobs)
        self.device = "gpu" if any(map(self._options.gpus, context.resources)) else "cpu"

    @property
    def note(self) -> str:
        return SILENT if self._silent else self._refusal

    def grant(self, job: Job, free: Sequence[int]) -> int | None:
        """Return the slot of the job that is to train a run, or None until Slurm answers.

        That is the job in which an earlier sweep submitted the run, or one that has room for the
        run, or a new one in a free slot.
        """
        if self._earlier is None:
            self._earlier = self._active_names()
            self._silent = self._earlier is None
        if self._earlier is None:
            return None
        run = self._outputs / "runs" / job.run
        needed = Resources.of_record(run)
        last = None if run in self._begun else read_object(job_file(run), keys=("job", "name"))
        queued = last["job"] if last and self._earlier.get(last["job"]) == last["name"] else ""
        seconds = math.inf if job.seconds is None else job.seconds

        def fits(known: SlurmJob) -> bool:
            if queued:
                return known.id == queued
            alike = (known.needed, known.parent) == (needed, job.parent) and needed.nodes == 1
            short = known.seconds + seconds <= self._options.longest_s
            return alike and short and not known.submitted

        found = next(filter(fits, self._jobs), None)
        if found is None:
            if not free:
                return None
            found = SlurmJob(needed, job.parent, free[0], queued, submitted=bool(queued))
            self._jobs.append(found)
        found.seconds += seconds
        self._granted = found
        return found.slot

    def start(self, run: Path, slot: int, after: int | None = None) -> int:
        """Add a run to the job that was granted to it; return its handle."""
        assert self._granted is not None
        handle, job = next(self._handles), self._granted
        job.runs[handle], job.after = run.resolve(), after
        job.shared = job.shared or len(job.runs) > 1
        if job.submitted and after:
            job.held_by = self._of[after].id
        self._of[handle] = job
        self._begun.add(run.resolve())
        return handle

    def ended(self, timeout: float) -> list[int]:
        """Submit what waits, sleep, and return the runs that the queue shows to have ended."""
        due = time.monotonic() >= self._next_poll
        if due or not self.note:
            self._submit_queue()
        time.sleep(timeout)
        if not due:
            return []
        queued = slurm_cluster.queue()
        self._next_poll = time.monotonic() + self._options.poll_s
        self._silent = queued is None
        if queued is None:  # the jobs go on all the same
            return []
        states = {id: state for id, (state, _) in queued.items()}
        submitted = [job for job in self._jobs if job.submitted]
        if forgotten := {job.id for job in submitted if job.id} - states.keys():
            states |= slurm_cluster.read_accounts(forgotten)
        over, poll_s = [], max(self.poll_s, _POLL_PER_JOB_S * len(submitted))
        for job in submitted:
            job.state = states.get(job.id, "GONE")
            ended = job.ended(poll_s)
            job.runs = {handle: run for handle, run in job.runs.items() if handle not in ended}
            over += ended
        self._jobs = [job for job in self._jobs if job.runs]
        return over

    def begun(self, job: int) -> bool:
        return self._of[job].state != "PENDING"

    def submit_driver(self, command: Sequence[str]) -> str:
        """Submit a sweep itself as a job, unless it is queued already; return a line about it."""
        name = digest_of([*command, str(Path.cwd())])[:12]
        try:
            if (names := self._active_names()) is None:
                raise NotNow(SILENT)
            job = next((id for id, known in names.items() if known == name), "")
            job = job or slurm_cluster.submit_driver(
                self._outputs, name, self._options, command, self.code
            )
        except NotNow as refusal:
            raise UserError(f"hydra.launcher.leave=true: {refusal}; try again later.") from None
        return (
            f"the sweep is Slurm job {job} and needs nothing here; its log: "
            f"{self._outputs / 'slurm' / name / job}_0_log.out; where it stands: python -m sweeper "
            "status, or the same command again"
        )

    def signal(self, job: int, number: int) -> None:
        """Signal a job that runs; cancel one that waits, if the signal ends it.

        A job of several runs is asked to end once.
        """
        its = self._of[job]
        if number in ENDS:
            if its.stopping == number:
                return
            its.stopping = number
        if its.submitted:
            slurm_cluster.send(its.id, signal.Signals(number))
        else:
            its.submitted, its.state = True, "GONE"

    def exit_reason(self, job: int) -> str:
        """Return why a run is not to start again after its job ended; empty if it may."""
        ended = self._of[job]
        if ended.state not in FINAL:
            return ""
        # Slurm cancels a job that waits for one which has failed, or which was submitted again.
        parent = self._of.get(ended.after or 0)
        lost = parent and (parent.id != ended.held_by or parent.state in _FAILED)
        if ended.state == "CANCELLED" and ended.held_by and lost:
            return ""
        return f"its Slurm job {ended.id} {FINAL[ended.state]}"

    def _active_names(self) -> dict[str, str] | None:
        """Return the names of this user's jobs that wait or run, by id; None without an answer."""
        queued = slurm_cluster.queue()
        if queued is None:
            return None
        return {id: name for id, (state, name) in queued.items() if state not in OVER}

    def _submit_queue(self) -> None:
        """Submit the jobs that are not in the queue, in arrays, until Slurm refuses one job.

        After a refusal the next array has half as many jobs. A job whose parent is not submitted
        yet waits for that.
        """
        batches: dict[tuple[Resources, str], list[SlurmJob]] = {}
        for job in self._jobs:
            if job.submitted:
                continue
            parent, held_by = self._of.get(job.after or 0), ""
            if parent is not None and job.after in parent.runs:  # the parent has not ended
                if not parent.submitted:
                    continue
                if parent.state in _FAILED:
                    job.submitted, job.state = True, "GONE"
                    continue
                held_by = parent.id
            batches.setdefault((job.needed, held_by), []).append(job)
        self._refusal = ""
        for (needed, held_by), waiting in batches.items():
            while waiting:
                array = waiting[: self._array_size]
                runs = [[*job.runs.values()] for job in array]
                try:
                    ids = slurm_cluster.submit_runs(
                        self._outputs, runs, self._options, needed, held_by, self.code
                    )
                except NotNow as refused:
                    self._array_size = max(1, len(array) // 2)
                    if len(array) == 1:
                        self._refusal = str(refused)
                        return
                    continue
                for job, id in zip(array, ids, strict=True):
                    job.id, job.submitted, job.held_by, job.state = id, True, held_by, "PENDING"
                self._array_size = min(self._limits.array, 2 * self._array_size)
                waiting = waiting[len(array) :]
