"""Runs as Slurm jobs: arrays of equal jobs, children after their parents, small runs in one job.

Soon after a sweep begins the queue holds everything that the cluster takes, and goes on without the
sweep; the rest follows as jobs end. The same command typed again takes over what is queued:
outputs/slurm/<run>.json names the job of each run. Slurm, not the sweep, starts a preempted job
again; a job at its time limit saves and requeues itself (see slurm_job.py). The backend polls
squeue, and asks sacct only about jobs that squeue has forgotten.
"""

from __future__ import annotations

import contextlib
import getpass
import io
import itertools
import math
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

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
"""States after which Slurm does nothing more for a job (man squeue, JOB STATE CODES); GONE is a job
that nothing knows any more."""
ENDS = (signal.SIGTERM, signal.SIGKILL)
NO_LIMIT = sys.maxsize
_FULL_OR_AWAY = re.compile(
    "Submit\\w*Limit"  # AssocMaxSubmitJobLimit, QOSMaxSubmitJobPerUserLimit, QOSGrpSubmitJobsLimit
    "|temporarily|job queue full|contact slurm controller|timed out|Connection refused"
    "|Zero Bytes|not responding|connection failure|standby|Transport endpoint",
    re.IGNORECASE,
)
"""Words of sbatch about a job that it takes once other jobs have left, or once Slurm is back."""
SILENT = "Slurm does not answer; what is queued goes on"
TAKEN_AWAY = frozenset("BOOT_FAIL NODE_FAIL PREEMPTED REVOKED".split())
"""States that are the cluster's doing. The job is submitted again, which is no try of its runs."""
FINAL = {"CANCELLED": "was cancelled", "OUT_OF_MEMORY": "was killed for its use of host memory"}
"""States of a job whose runs are not started again, whatever their records say."""
_FAILED = OVER - {"COMPLETED"}
_POLL_PER_JOB_S = 16.0  # a poll of its runs is eight requests to the file server: two seconds each


@dataclass(eq=False)
class SlurmJob:
    """A job in Slurm's queue, or one that is to be submitted."""

    needed: Resources  # of each of its runs
    parent: str | None  # the run that its runs continue, if there is one
    slot: int
    id: str = ""  # Slurm's id of its last submission
    submitted: bool = False  # whether it is in the queue, or has ended there
    state: str = "PENDING"
    runs: dict[int, Path] = field(default_factory=dict)  # by handle, until the schedule ends them
    seconds: float = 0.0  # expected, of its runs one after the other
    shared: bool = False  # whether it has, or had, several runs
    after: int | None = None  # the handle of the parent, if that had not ended
    held_by: str = ""  # the id of the job that Slurm makes it wait for
    stopping: int = 0  # the last signal by which the sweep has asked it to end, or 0
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
        gpus = [request_gpus(self._options, needed) for needed in context.resources]
        self.device = "gpu" if any(gpus) else "cpu"

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
        queued = queue()
        self._next_poll = time.monotonic() + self._options.poll_s
        self._silent = queued is None
        if queued is None:  # the jobs go on all the same
            return []
        states = {id: state for id, (state, _) in queued.items()}
        submitted = [job for job in self._jobs if job.submitted]
        if forgotten := {job.id for job in submitted if job.id} - states.keys():
            states |= read_accounts(forgotten)
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
            send(its.id, signal.Signals(number))
        else:
            its.submitted, its.state = True, "GONE"

    def start_log(self, job: int | None) -> str:
        if job is None or not self._of[job].id:
            return super().start_log(job)
        return f"{self._outputs / 'slurm'}/*/{self._of[job].id}_0_log.out"

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
        queued = queue()
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
                    ids = self._submit_runs(runs, needed, held_by)
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

    def _submit_runs(
        self, jobs: Sequence[Sequence[Path]], needed: Resources, held_by: str
    ) -> list[str]:
        """Submit jobs of one or more runs each, as an array if they are several; return their ids.

        The files of the runs name their job before Slurm has it. If Slurm took a job although it
        said otherwise, the job finds that its runs belong to another one and leaves them alone.

        Raises:
            NotNow: none of them was taken; they may be taken later.
            UserError: they cannot be taken, or others may write to what they execute.
        """
        # A new name for each batch: a cluster that was set up again counts its jobs from 1 again,
        # and submitit would mix the files of old and new jobs.
        name = secrets.token_hex(6)
        executor = self._executor(name, needed, held_by)
        _write_job_files(jobs, [""] * len(jobs), name)
        work = [RunsWork([*map(str, runs)], str(self.code), name) for runs in jobs]
        ids = _submit(executor, work)
        _write_job_files(jobs, ids, name)
        return ids

    def _executor(self, name: str, needed: Resources, held_by: str = "") -> Any:
        """Return submitit's executor for jobs of this name, with a folder of their own."""
        import submitit

        folder = self._outputs / "slurm"
        make_directory(folder)
        folder.chmod(0o700)
        refuse_shared(self._outputs, folder)
        executor = submitit.SlurmExecutor(folder / name, self._options.max_num_timeout)
        executor.update_parameters(
            **request(self._options, needed, self.code, held_by),
            job_name=name,
            wckey=None,
            stderr_to_stdout=True,
            srun_args=["--kill-on-bad-exit=1"],
        )
        return executor


def request_gpus(options: Options, needed: Resources) -> int:
    """Return how many GPUs a run takes on each node; `auto` takes some where nodes have any."""
    auto = needed.accelerator == "auto" and not options.gres
    if needed.accelerator == "cpu" or (auto and not _has_gpus(options.partition)):
        return 0
    return options.gpus_per_device * needed.devices


def request(options: Options, needed: Resources, code: Path, held_by: str = "") -> dict[str, Any]:
    """Return what sbatch is asked for a run, by submitit's names.

    On each node one task starts a process per device. `held_by`: the job that has to complete
    before this one starts.
    """
    gpus = request_gpus(options, needed)
    plain = "partition account qos constraint nodelist exclude mail_type mail_user".split()
    plain += ["signal_delay_s", "array_parallelism", "setup"]
    asked = {
        **{key: getattr(options, key) for key in plain},
        "time": options.timeout_min,
        "nodes": needed.nodes,
        "ntasks_per_node": 1,
        "cpus_per_task": (options.cpus_per_device or needed.threads) * needed.devices,
        "mem": f"{round(options.mem_gb * 1024)}MB" if options.mem_gb else None,
        "gres": options.gres if gpus else None,
        "gpus_per_node": gpus if gpus and not options.gres else None,
    }
    further = {"chdir": str(code), "requeue": True}
    if options.reservation is not None:
        further["reservation"] = options.reservation
    if held_by:
        further |= {"dependency": f"afterok:{held_by}", "kill-on-invalid-dep": "yes"}
    present = {key: value for key, value in asked.items() if value is not None}
    return {**present, "additional_parameters": further}


@cache
def _has_gpus(partition: str | None) -> bool:
    """Return whether any node of the partition (None: of all) has GPUs, or Slurm does not say."""
    of = ["--partition", partition] if partition else []
    rows = _rows("sinfo", "--noheader", "--format=%G", *of)
    return rows is None or any("gpu" in row[0] for row in rows)


def check_room(options: Options, needed: Resources) -> None:
    """Raise UserError if sbatch would refuse the runs for good, whatever else is in the queue."""
    asked = request(options, needed, Path.cwd())
    names = "partition account qos constraint nodelist exclude time nodes ntasks_per_node".split()
    names += ["cpus_per_task", "mem", "gres", "gpus_per_node"]
    typed = [f"--{key.replace('_', '-')}={asked[key]}" for key in names if key in asked]
    if options.reservation:
        typed.append(f"--reservation={options.reservation}")
    command = ["sbatch", "--test-only", *typed, "--wrap", "true"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode and not _FULL_OR_AWAY.search(answer.stderr):
        raise UserError(
            f"hydra/launcher=slurm: {_refusal(answer.stderr)}; ask for less, or name another "
            "hydra.launcher.partition."
        )


def _refusal(answer: str) -> str:
    words = "; ".join(line.removeprefix("sbatch: error: ") for line in answer.splitlines())
    return f"sbatch refused the job: {sanitize(words)}"


class Limits(NamedTuple):
    """The most jobs of one array, and the most that this user may have waiting or running."""

    array: int
    jobs: int


def read_limits(options: Options) -> Limits:
    """Return what the cluster's configuration and accounts allow.

    Where they say nothing there is no limit. Jobs of other sweeps count too, so sbatch may refuse a
    job before the limit.
    """
    lines = [row[0].split() for row in _rows("scontrol", "show", "config") or []]
    config = {words[0]: words[-1] for words in lines}
    sacctmgr = ("sacctmgr", "--noheader", "--parsable2", "show")
    fields = "format=Account,DefaultAccount,Partition,MaxSubmitJobs,DefaultQOS"
    user = (f"name={getpass.getuser()}", "withassoc", fields)
    most_of_user, qos = "", ""
    for row in _rows(*sacctmgr, "user", "where", *user) or []:
        account, default, partition, most, default_qos = row
        if account == (options.account or default) and partition in ("", options.partition):
            most_of_user, qos = most, default_qos
            break
    names = [options.qos or qos or "normal"]
    chosen = (options.partition or "").split(",")
    for row in _rows("scontrol", "--oneliner", "show", "partition") or []:
        facts = dict(word.split("=", 1) for word in row[0].split() if "=" in word)
        is_chosen = facts["PartitionName"] in chosen
        if is_chosen or (not options.partition and facts.get("Default") == "YES"):
            names += [facts["QoS"]] if facts.get("QoS", "N/A") != "N/A" else []
    fields = "format=MaxSubmitJobsPerUser,MaxSubmitJobsPerAccount,GrpSubmitJobs"
    of_qos = _rows(*sacctmgr, "qos", "where", f"name={','.join(names)}", fields) or []
    numbers = [config.get("MaxJobCount", ""), most_of_user, *itertools.chain(*of_qos)]
    return Limits(_least([config.get("MaxArraySize", "")]), _least(numbers))


def queue() -> dict[str, tuple[str, str]] | None:
    """Return the state and the name of each job of this user by id; None without an answer.

    Slurm lists jobs that have ended for some minutes.
    """
    fields = "--format=%i|%T|%j"
    rows = _rows("squeue", "--me", "--noheader", "--array", "--states=all", fields)
    return None if rows is None else {row[0]: (row[1], row[2]) for row in rows}


def read_accounts(jobs: Collection[str]) -> dict[str, str]:
    """Return the states of jobs that the queue has forgotten, by id, where there is accounting."""
    ids = ("--jobs", ",".join(jobs), "--allocations")
    rows = _rows("sacct", *ids, "--noheader", "--parsable2", "--format=JobID,State")
    return {row[0]: row[1].split()[0] for row in rows or []}  # such as "CANCELLED by 0"


def send(job: str, number: signal.Signals) -> None:
    """Signal the processes of a job; take a job that has not started out of the queue."""
    name = number.name.removeprefix("SIG")
    choices = [[f"--signal={name}", "--state=RUNNING"]]
    if number in ENDS:
        choices.insert(0, ["--state=PENDING"])
    for choice in choices:
        subprocess.run(["scancel", *choice, job], capture_output=True, check=False)


def leave_allocation() -> None:
    """Remove the variables of a surrounding job, which sbatch would pass on or prefer."""
    for name in [*os.environ]:
        if name.startswith(("SLURM_", "SBATCH_", "SRUN_")) and name != "SLURM_CONF":
            del os.environ[name]


class NotNow(Exception):
    """sbatch takes no more jobs for the moment; the message is its answer."""


def refuse_shared(*folders: Path) -> None:
    """Raise UserError if others may write to a folder: a job executes what it finds there."""
    for folder in folders:
        status = folder.stat()
        if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            expected = "a folder that only you may write to, since Slurm jobs run code from it"
            raise invalid_value("outputs", folder, expected, f"say `chmod go-w {folder}`")


def _submit(executor: Any, work: Sequence[Any]) -> list[str]:
    from submitit.core.utils import FailedJobError

    copied = io.StringIO()  # submitit prints what sbatch says
    try:
        with contextlib.redirect_stderr(copied), executor.batch():
            jobs = [executor.submit(each) for each in work]
    except FailedJobError:
        answer = copied.getvalue()
        sentence = _refusal(answer)
        if _FULL_OR_AWAY.search(answer):
            raise NotNow(sentence) from None
        raise UserError(f"hydra/launcher=slurm: {sentence}") from None
    return [job.job_id for job in jobs]


def _write_job_files(jobs: Sequence[Sequence[Path]], ids: Sequence[str], name: str) -> None:
    for runs, job in zip(jobs, ids, strict=True):
        for run in runs:
            publish_json(job_file(run), {"job": job, "name": name})


def _rows(*command: str) -> list[list[str]] | None:
    """Return what one of Slurm's commands prints, split at "|"; None if it is missing or fails."""
    if shutil.which(command[0]) is None:
        return None
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return None
    return [line.strip().split("|") for line in answer.stdout.splitlines() if line.strip()]


def _least(numbers: Iterable[str]) -> int:
    """Return the smallest of the numbers, at least 1; what is no number is no limit."""
    return max(1, min((int(one) for one in numbers if one.isdecimal()), default=NO_LIMIT))
