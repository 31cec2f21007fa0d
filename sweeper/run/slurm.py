"""The backend that trains runs as Slurm jobs. Jobs that need equal resources form a job array.

A sweep submits as many jobs as the cluster accepts. When jobs end, it submits more. Queued jobs
start even if the sweep has ended. If the user repeats the command, the new sweep finds the queued
jobs, because outputs/slurm/<run>.json names the job of each run.

Slurm restarts a preempted job. Before its time limit a job saves and requeues itself (see
slurm_job.py). The backend polls squeue. It asks sacct about jobs that squeue no longer lists.
"""

from __future__ import annotations

import io
import os
import re
import secrets
import signal
import stat
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sweeper.run.backend import Backend, BackendContext, Job, Resources
from sweeper.run.backends.slurm import Options
from sweeper.run.slurm_job import RunsWork, job_file
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.files import make_directory, publish_json, read_object
from sweeper.store.runs import Run, State

OVER = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT "
    "REVOKED GONE".split()
)
"""The states of jobs that have ended, from `man squeue`, JOB STATE CODES.

Slurm has no state GONE. This backend uses it for a job that neither squeue nor sacct lists.
"""
ENDS = (signal.SIGTERM, signal.SIGKILL)
# Submit\w*Limit matches AssocMaxSubmitJobLimit, QOSMaxSubmitJobPerUserLimit and
# QOSGrpSubmitJobsLimit. Slurm reports an invalid job array if the array exceeds MaxArraySize. The
# backend then submits the jobs one by one.
_FULL_OR_AWAY = re.compile(
    "Submit\\w*Limit|Invalid job array"
    "|temporarily|job queue full|contact slurm controller|timed out|Connection refused"
    "|Zero Bytes|not responding|connection failure|standby|Transport endpoint",
    re.IGNORECASE,
)
"""Matches the messages of sbatch if Slurm's queue is full, or if its controller does not answer.

After such a message, a later submission may succeed.
"""
SILENT = "Slurm does not answer; queued jobs continue"
TAKEN_AWAY = frozenset("BOOT_FAIL NODE_FAIL PREEMPTED REVOKED".split())
"""The states of jobs that the cluster ended. Their runs do not count as failed."""
FINAL = {
    "CANCELLED": "was cancelled; repeat the command to train the run",
    "OUT_OF_MEMORY": "was killed because it used too much host memory; raise hydra.launcher.mem_gb",
}
"""The states after which the runs of a job do not start again, each with its message."""


@dataclass(eq=False)
class QueuedRun:
    """A run that the schedule has started. It is the handle of the run's job.

    Attributes:
        path: the directory of the run.
        needed: the resources that the run needs.
        job: the job that trains the run. None while the run waits for its submission.
    """

    path: Path
    needed: Resources
    job: SlurmJob | None = None


@dataclass(eq=False)
class SlurmJob:
    """A job in Slurm's queue that trains runs one after the other.

    Attributes:
        id: the job's id in Slurm.
        runs: the runs that have not ended.
        state: the state that squeue or sacct reported last.
        stopping: SIGTERM or SIGKILL if the sweep has sent it to the job, otherwise 0.
    """

    id: str
    runs: list[QueuedRun] = field(default_factory=list)
    state: str = "PENDING"
    stopping: int = 0

    def ended(self) -> list[QueuedRun]:
        """Return the runs that ended with the job. Other runs must start again.

        How the job ended decides which runs these are:

        - The user or the sweep cancelled the job: all its runs.
        - The cluster ended the job (TAKEN_AWAY): the runs that are done or failed.
        - Any other end: the runs that the job began. If it began none, all its runs.
        """
        if self.stopping or self.state == "CANCELLED":
            return self.runs
        if self.state in TAKEN_AWAY:
            settled = (State.DONE, State.FAILED)
            return [run for run in self.runs if Run(run.path).status().state in settled]
        return [run for run in self.runs if Run(run.path).attempts()] or self.runs


class SlurmBackend(Backend):
    """A backend that collects runs, submits them in job arrays, and polls the queue."""

    poll_s = 30.0

    def __init__(self, context: BackendContext) -> None:
        self._options: Options = context.options
        self._outputs = context.outputs.resolve()
        # The message of sbatch if Slurm refused the last submission, or "".
        self._refusal = ""
        # True if Slurm did not answer the last call of squeue.
        self._silent = False
        # The runs that have to be submitted.
        self._waiting: list[QueuedRun] = []
        # The runs that will not be submitted. `ended` reports them as ended.
        self._dropped: list[QueuedRun] = []
        # The jobs that still have runs to train, by id.
        self._jobs: dict[str, SlurmJob] = {}
        # The last answer of `queue`. None until Slurm answers.
        self._queue: dict[str, tuple[str, str]] | None = None
        self._next_poll = 0.0
        self.slots = self._options.jobs * self._options.runs_per_job
        gpus = [requested_gpus(self._options, one) for one in context.resources]
        self.device = "gpu" if any(gpus) else "cpu"

    @property
    def note(self) -> str:
        return SILENT if self._silent else self._refusal

    def grant(self, job: Job, free: Sequence[int]) -> int | None:
        """Return a free slot. Return None until Slurm has reported its queue."""
        if self._queue is None and self._poll() is None:
            return None
        return super().grant(job, free)

    def _poll(self) -> dict[str, tuple[str, str]] | None:
        """Return {id: (state, name)} for the user's jobs. Return None if Slurm does not answer."""
        found = queue()
        self._silent = found is None
        if found is not None:
            self._queue = found
        return found

    def start(self, run: Path, slot: int) -> QueuedRun:
        """Start a run and return its handle.

        If another sweep has submitted the run and its job is still in the queue, use that job.
        Otherwise, the next call of `ended` submits the run.
        """
        path = run.resolve()
        started = QueuedRun(path, Resources.of_record(path))
        if not self._joined(started):
            self._waiting.append(started)
        return started

    def _joined(self, run: QueuedRun) -> bool:
        """Assign a run to the job that another sweep has queued for it.

        Return False if there is no such job.
        """
        last = read_object(job_file(run.path), keys=("job", "name"))
        if last is None:
            return False
        state, name = (self._queue or {}).get(last["job"], ("GONE", ""))
        if state in OVER or name != last["name"]:
            return False
        # If the outputs folder was copied, this job trains the run in the original folder.
        if last.get("folder", str(run.path)) != str(run.path):
            return False
        # If a run has failed in a job, the job does not train it again.
        if state != "PENDING" and Run(run.path).status().state is State.FAILED:
            return False
        self._assign([run], str(last["job"]))
        return True

    def _assign(self, runs: Sequence[QueuedRun], id: str) -> None:
        """Note that the job `id` trains these runs."""
        job = self._jobs.setdefault(id, SlurmJob(id))
        job.runs += runs
        for run in runs:
            run.job = job

    def ended(self, timeout: float) -> list[QueuedRun]:
        """Submit waiting runs, sleep for `timeout` seconds, and return the runs that ended."""
        due = time.monotonic() >= self._next_poll
        if due or not self.note:
            self._submit_waiting()
        time.sleep(timeout)
        over, self._dropped = self._dropped, []
        if due:
            found = self._poll()
            self._next_poll = time.monotonic() + self._options.poll_s
            # If Slurm does not answer, assume that all jobs continue.
            if found is not None:
                over += self._ended_with_jobs(found)
        return over

    def _ended_with_jobs(self, found: Mapping[str, tuple[str, str]]) -> list[QueuedRun]:
        """Return the runs that ended with their jobs. Queue the other runs of these jobs again.

        `found` is the answer of `queue`.
        """
        forgotten = self._jobs.keys() - found.keys()
        accounts = read_accounts(forgotten) if forgotten else {}
        states = accounts | {id: state for id, (state, _) in found.items()}
        over = []
        for job in self._jobs.values():
            job.state = states.get(job.id, "GONE")
            if job.state in OVER:
                ended = job.ended()
                again = [run for run in job.runs if run not in ended]
                for run in again:
                    run.job = None
                job.runs = []
                over += ended
                self._waiting += again
        self._jobs = {id: job for id, job in self._jobs.items() if job.runs}
        return over

    def begun(self, job: QueuedRun) -> bool:
        return job.job is not None and job.job.state != "PENDING"

    def signal(self, job: QueuedRun, number: int) -> None:
        """Send a signal to the job of a run. SIGTERM and SIGKILL cancel a pending job.

        Several runs may share a job, so send SIGTERM and SIGKILL only once to each job.
        """
        slurm_job = job.job
        if slurm_job is not None:
            if slurm_job.stopping != number:
                send(slurm_job.id, signal.Signals(number))
            if number in ENDS:
                slurm_job.stopping = number
        elif number in ENDS and job in self._waiting:
            self._waiting.remove(job)
            self._dropped.append(job)

    def start_log(self, job: QueuedRun | None) -> str:
        if job is None or job.job is None:
            return super().start_log(job)
        return f"{self._outputs / 'slurm'}/*/{job.job.id}_0_log.out"

    def exit_reason(self, job: QueuedRun) -> str:
        """Return why a run must not start again after its job ended. Return "" if it may."""
        ended = job.job
        if ended is None or ended.state not in FINAL:
            return ""
        return f"its Slurm job {ended.id} {FINAL[ended.state]}"

    def _submit_waiting(self) -> None:
        """Submit waiting runs of equal resources as a job array, until Slurm refuses one."""
        self._refusal = ""
        if self._waiting and len(self._jobs) < self._options.jobs:
            # Another sweep may have submitted some of the runs since the last poll.
            self._poll()
            self._waiting = [run for run in self._waiting if not self._joined(run)]
        alike: dict[Resources, list[QueuedRun]] = {}
        for run in self._waiting:
            alike.setdefault(run.needed, []).append(run)
        for needed, runs in alike.items():
            # A job on several nodes trains a single run, with one task on each node.
            each = self._options.runs_per_job if needed.nodes == 1 else 1
            jobs = [runs[first : first + each] for first in range(0, len(runs), each)]
            room = max(0, self._options.jobs - len(self._jobs))
            try:
                self._submit_jobs(jobs[:room], needed)
            except NotNow as refused:
                self._refusal = str(refused)
                return

    def _submit_jobs(
        self, jobs: Sequence[Sequence[QueuedRun]], needed: Resources
    ) -> None:
        """Submit jobs as a job array. Raise NotNow if Slurm refuses a job.

        If Slurm refuses an array, submit its jobs one by one, because Slurm may accept some.

        Args:
            jobs: for each job, its runs.
            needed: the resources that each run needs.
        """
        if not jobs:
            return
        try:
            ids = self._submit_runs(jobs, needed)
        except NotNow:
            if len(jobs) == 1:
                raise
            for job in jobs:
                self._submit_jobs([job], needed)
            return
        for runs, id in zip(jobs, ids, strict=True):
            self._assign(runs, id)
        self._waiting = [run for run in self._waiting if run.job is None]

    def _submit_runs(
        self, jobs: Sequence[Sequence[QueuedRun]], needed: Resources
    ) -> list[str]:
        """Submit one job, or an array of several jobs, and return their ids.

        Write the job file of each run before the submission. Slurm may report an error although it
        has accepted the job. Then the runs are submitted again. When the first job starts, the job
        files tell it that its runs belong to the second job, so it skips them.

        Args:
            jobs: for each job, its runs.
            needed: the resources that each run needs.

        Raises:
            NotNow: Slurm refused the jobs, but may accept them later.
            UserError: Slurm will never accept the jobs, or other users may change the code that the
                jobs execute.
        """
        # submitit keeps the files of a job in a folder with this name. Use a new name, because a
        # reinstalled Slurm numbers jobs from 1 again, and an old job may have the same number.
        name = secrets.token_hex(6)
        executor = self._executor(name, needed)
        work = []
        for runs in jobs:
            _write_job_files(runs, "", name)
            paths = [str(run.path) for run in runs]
            work.append(RunsWork(paths, str(self.code), name))
        ids = _submit(executor, work)
        for runs, id in zip(jobs, ids, strict=True):
            _write_job_files(runs, id, name)
        return ids

    def _executor(self, name: str, needed: Resources) -> Any:
        """Return submitit's executor for jobs called `name`, with its files in slurm/`name`."""
        import submitit

        folder = self._outputs / "slurm"
        make_directory(folder)
        folder.chmod(0o700)
        refuse_shared(self._outputs)
        refuse_shared(folder)
        executor = submitit.SlurmExecutor(folder / name, self._options.max_num_timeout)
        executor.update_parameters(
            **request(self._options, needed, self.code),
            job_name=name,
            wckey=None,
            stderr_to_stdout=True,
            srun_args=["--kill-on-bad-exit=1"],
        )
        return executor


def requested_gpus(options: Options, needed: Resources) -> int:
    """Return the number of GPUs that a run requests on each node.

    With `trainer.accelerator=auto`, a run requests GPUs if any node of the partition has some.
    """
    auto = needed.accelerator == "auto" and not options.gres
    if needed.accelerator == "cpu" or (auto and not _has_gpus(options.partition)):
        return 0
    return options.gpus_per_device * needed.devices


def request(options: Options, needed: Resources, code: Path) -> dict[str, Any]:
    """Return the sbatch parameters of a job, with submitit's names for them.

    Each node runs one Slurm task, which starts a process per device.
    """
    further = {"chdir": str(code), "requeue": True}
    if options.reservation is not None:
        further["reservation"] = options.reservation
    of_submitit = {
        key: getattr(options, key)
        for key in ("signal_delay_s", "array_parallelism", "setup")
    }
    return {
        **_arguments(options, needed),
        **of_submitit,
        "additional_parameters": further,
    }


def _arguments(options: Options, needed: Resources) -> dict[str, Any]:
    """Return the arguments of sbatch that decide where and for how long a job executes."""
    gpus = requested_gpus(options, needed)
    unchanged = (
        "partition account qos constraint nodelist exclude mail_type mail_user".split()
    )
    asked = {
        **{key: getattr(options, key) for key in unchanged},
        "time": options.timeout_min,
        "nodes": needed.nodes,
        "ntasks_per_node": 1,
        "cpus_per_task": (options.cpus_per_device or needed.threads) * needed.devices,
        "mem": f"{round(options.mem_gb * 1024)}MB" if options.mem_gb else None,
        "gres": options.gres if gpus else None,
        "gpus_per_node": gpus if gpus and not options.gres else None,
    }
    return {key: value for key, value in asked.items() if value is not None}


@cache
def _has_gpus(partition: str | None) -> bool:
    """Return whether any node of a partition may have GPUs. None means all partitions.

    Return True if Slurm does not answer.
    """
    of = ["--partition", partition] if partition else []
    rows = _rows("sinfo", "--noheader", "--format=%G", *of)
    return rows is None or any("gpu" in row[0] for row in rows)


def check_room(options: Options, needed: Resources) -> None:
    """Raise UserError if Slurm will never accept a job with these options and resources."""
    asked = _arguments(options, needed)
    if options.reservation:
        asked["reservation"] = options.reservation
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in asked.items()]
    command = ["sbatch", "--test-only", *arguments, "--wrap", "true"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        with suppress(NotNow):
            raise _refusal(answer.stderr)


def _refusal(answer: str) -> Exception:
    """Return the error for a message of sbatch. It is NotNow if Slurm may accept the job later."""
    lines = [line.removeprefix("sbatch: error: ") for line in answer.splitlines()]
    sentence = f"sbatch refused the job: {sanitize('; '.join(lines))}"
    if _FULL_OR_AWAY.search(answer):
        return NotNow(sentence)
    return UserError(
        f"hydra/launcher=slurm: {sentence}. Request less, or correct the options of "
        "hydra.launcher."
    )


def queue() -> dict[str, tuple[str, str]] | None:
    """Return {id: (state, name)} for the user's jobs.

    Slurm lists a job for some minutes after its end. Return None if Slurm does not answer.
    """
    fields = "--format=%i|%T|%j"
    rows = _rows("squeue", "--me", "--noheader", "--array", "--states=all", fields)
    return None if rows is None else {id: (state, name) for id, state, name in rows}


def read_accounts(jobs: Collection[str]) -> dict[str, str]:
    """Return the states of these jobs from Slurm's accounting, by id. Omit unknown jobs."""
    ids = ("--jobs", ",".join(jobs), "--allocations")
    rows = _rows("sacct", *ids, "--noheader", "--parsable2", "--format=JobID,State")
    # sacct may add words to a state, as in "CANCELLED by 0".
    return {id: state.split()[0] for id, state in rows or []}


def send(job: str, number: signal.Signals) -> None:
    """Send a signal to the processes of a running job. SIGTERM and SIGKILL cancel a pending job."""
    name = number.name.removeprefix("SIG")
    choices = [[f"--signal={name}", "--state=RUNNING"]]
    if number in ENDS:
        choices.insert(0, ["--state=PENDING"])
    for choice in choices:
        subprocess.run(["scancel", *choice, job], capture_output=True, check=False)


def leave_allocation() -> None:
    """If this process runs in a Slurm job, remove the job's environment variables.

    sbatch would pass them on to new jobs, or use their values instead of its arguments.
    """
    for name in [*os.environ]:
        if name.startswith(("SLURM_", "SBATCH_", "SRUN_")) and name != "SLURM_CONF":
            del os.environ[name]


class NotNow(Exception):
    """Raised when Slurm accepts no more jobs at present, with the message of sbatch."""


def refuse_shared(folder: Path) -> None:
    """Raise UserError if other users can write to a folder from which jobs execute code."""
    status = folder.stat()
    is_own = status.st_uid == os.getuid()
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others_write or not is_own:
        expected = (
            "a folder that only you may write to, since Slurm jobs run code from it"
        )
        remedy = f"run `chmod go-w {folder}`" if is_own else "choose a folder of yours"
        raise invalid_value("outputs", folder, expected, remedy)


def _submit(executor: Any, work: Sequence[Any]) -> list[str]:
    from submitit.core.utils import FailedJobError

    copied = io.StringIO()  # submitit prints the messages of sbatch
    try:
        with redirect_stderr(copied), executor.batch():
            jobs = [executor.submit(each) for each in work]
    except FailedJobError:
        raise _refusal(copied.getvalue()) from None
    return [job.job_id for job in jobs]


def _write_job_files(runs: Iterable[QueuedRun], job: str, name: str) -> None:
    """Note in outputs/slurm that the job with this id and name trains these runs."""
    for run in runs:
        known = {"job": job, "name": name, "folder": str(run.path)}
        publish_json(job_file(run.path), known)


def _rows(*command: str) -> list[list[str]] | None:
    """Run a Slurm command and return the lines of its output, each split at "|".

    Return None if the command is missing, may not be executed, or fails.
    """
    with suppress(OSError):
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            lines = filter(str.strip, answer.stdout.splitlines())
            # Only the last column, the name of a job, may contain "|".
            return [line.strip().split("|", 2) for line in lines]
    return None
