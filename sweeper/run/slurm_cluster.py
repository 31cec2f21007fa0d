"""The Slurm cluster as a user meets it: options, limits, the queue, and submission by submitit."""

from __future__ import annotations

import contextlib
import getpass
import io
import itertools
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from sweeper.run.backend import Resources
from sweeper.run.options import LINES, WORD, LimitedOptions, at_least
from sweeper.run.slurm_job import DriverWork, RunsWork, job_file
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.files import make_directory, publish_json

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


@dataclass
class Options(LimitedOptions):
    """The options of conf/hydra/launcher/slurm.yaml."""

    partition: Annotated[str | None, WORD]
    account: Annotated[str | None, WORD]
    qos: Annotated[str | None, WORD]
    constraint: Annotated[str | None, WORD]
    reservation: Annotated[str | None, WORD]
    nodelist: Annotated[str | None, WORD]
    exclude: Annotated[str | None, WORD]
    gres: Annotated[str | None, WORD]
    mail_type: Annotated[str | None, WORD]
    mail_user: Annotated[str | None, WORD]
    timeout_min: Annotated[int | None, at_least(1)]
    mem_gb: Annotated[float | None, at_least(0.1)]
    cpus_per_device: Annotated[int | None, at_least(1)]
    gpus_per_device: Annotated[int, at_least(0)]
    setup: Annotated[list[str], LINES]
    jobs: Annotated[int, at_least(1)]
    job_min: Annotated[float, at_least(0)]
    array_parallelism: Annotated[int | None, at_least(1)]
    signal_delay_s: Annotated[int | None, at_least(1)]
    max_num_timeout: Annotated[int, at_least(0)]
    poll_s: Annotated[float, at_least(0.1)]
    leave: bool

    def gpus(self, needed: Resources) -> int:
        """Return how many GPUs a run takes on each node; `auto` takes some where nodes have any."""
        auto = needed.accelerator == "auto" and not self.gres
        if needed.accelerator == "cpu" or (auto and not _has_gpus(self.partition)):
            return 0
        return self.gpus_per_device * needed.devices

    @property
    def longest_s(self) -> float:
        """The seconds that runs which share a job may take; it has to finish them in its time."""
        within = self.job_min if self.timeout_min is None else min(self.job_min, self.timeout_min)
        return within * 60

    def sbatch(self, needed: Resources, code: Path, held_by: str = "") -> dict[str, Any]:
        """Return what sbatch is asked for a run, by submitit's names.

        On each node one task starts a process per device. `held_by`: the job that has to complete
        before this one starts.
        """
        gpus = self.gpus(needed)
        plain = "partition account qos constraint nodelist exclude mail_type mail_user".split()
        plain += ["signal_delay_s", "array_parallelism", "setup"]
        asked = {
            **{key: getattr(self, key) for key in plain},
            "time": self.timeout_min,
            "nodes": needed.nodes,
            "ntasks_per_node": 1,
            "cpus_per_task": (self.cpus_per_device or needed.threads) * needed.devices,
            "mem": f"{round(self.mem_gb * 1024)}MB" if self.mem_gb else None,
            "gres": self.gres if gpus else None,
            "gpus_per_node": gpus if gpus and not self.gres else None,
        }
        further = {"chdir": str(code), "requeue": True}
        if self.reservation is not None:
            further["reservation"] = self.reservation
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
    asked = options.sbatch(needed, Path.cwd())
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


class NotNow(Exception):
    """sbatch takes no more jobs for the moment; the message is its answer."""


def submit_runs(
    outputs: Path,
    jobs: Sequence[Sequence[Path]],
    options: Options,
    needed: Resources,
    held_by: str,
    code: Path,
) -> list[str]:
    """Submit jobs of one or more runs each, as an array if they are several; return their ids.

    The files of the runs name their job before Slurm has it. If Slurm took a job although it said
    otherwise, the job finds that its runs belong to another one and leaves them alone.

    Raises:
        NotNow: none of them was taken; they may be taken later.
        UserError: they cannot be taken, or others may write to what they execute.
    """
    # A new name for each batch: a cluster that was set up again counts its jobs from 1 again, and
    # submitit would mix the files of old and new jobs.
    name = secrets.token_hex(6)
    executor = _executor(outputs, name, options, options.sbatch(needed, code, held_by))
    _write_job_files(jobs, [""] * len(jobs), name)
    ids = _submit(executor, [RunsWork([*map(str, runs)], str(code), name) for runs in jobs])
    _write_job_files(jobs, ids, name)
    return ids


def submit_driver(
    outputs: Path, name: str, options: Options, command: Sequence[str], code: Path
) -> str:
    """Submit a sweep as a job of one core, with runs of this code; return its id.

    Raises:
        NotNow, UserError: as `submit_runs`.
    """
    needed = Resources("cpu", devices=1, nodes=1, threads=1)
    executor = _executor(outputs, name, options, options.sbatch(needed, code))
    return _submit(executor, [DriverWork(command, str(Path.cwd()), str(code))])[0]


def refuse_shared(*folders: Path) -> None:
    """Raise UserError if others may write to a folder: a job executes what it finds there."""
    for folder in folders:
        status = folder.stat()
        if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            expected = "a folder that only you may write to, since Slurm jobs run code from it"
            raise invalid_value("outputs", folder, expected, f"say `chmod go-w {folder}`")


def _executor(outputs: Path, name: str, options: Options, sbatch: dict[str, Any]) -> Any:
    """Return submitit's executor for jobs of this name, with a folder of their own."""
    import submitit

    folder = outputs / "slurm"
    make_directory(folder)
    folder.chmod(0o700)
    refuse_shared(outputs, folder)
    executor = submitit.SlurmExecutor(folder / name, options.max_num_timeout)
    stop_all = ["--kill-on-bad-exit=1"]
    executor.update_parameters(
        **sbatch, job_name=name, wckey=None, stderr_to_stdout=True, srun_args=stop_all
    )
    return executor


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
