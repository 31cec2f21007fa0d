"""Handing jobs in, through submitit: equal jobs at a time, as one array."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeper.run.backend import Resources
from sweeper.run.slurm.job import Sweep, Work, place
from sweeper.run.slurm.limits import LATER
from sweeper.run.slurm.options import Options
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.files import make_directory, publish_json


class NotNow(Exception):
    """The cluster takes no more for the moment; the message is what it said."""


def hand_in(
    outputs: Path,
    jobs: Sequence[Sequence[Path]],
    options: Options,
    needed: Resources,
    held_by: str,
    code: Path,
) -> list[str]:
    """Have Slurm execute jobs of several runs each, by the code in a folder; return the job ids.

    Slurm holds them until the job `held_by` is completed, if there is one.

    Which job a run is of is on disk before Slurm hears of it: should Slurm have taken a job of
    which it said otherwise, that job finds its runs handed in under another name, and leaves them.

    Raises:
        NotNow: none of them was taken, but might be later.
        UserError: they cannot be taken, or others may write to what they execute.
    """
    # New for each batch: a cluster that was set up again counts its jobs from 1 again, and
    # submitit would take what an old job of that number left for its own.
    name = secrets.token_hex(6)
    asked = {**options.request(needed), "additional_parameters": _further(options, held_by, code)}
    executor = _executor(outputs, name, options, asked)
    _note(jobs, [""] * len(jobs), name)
    ids = _submitted(executor, [Work([*map(str, job)], str(code), name) for job in jobs])
    _note(jobs, ids, name)
    return ids


def leave(outputs: Path, name: str, options: Options, command: Sequence[str], code: Path) -> str:
    """Have Slurm execute a sweep, whose runs are of this code; the id of its job.

    Raises:
        NotNow, UserError: as `hand_in`.
    """
    once = Resources("cpu", devices=1, nodes=1, threads=1)
    asked = {**options.request(once), "additional_parameters": _further(options, "", code)}
    executor = _executor(outputs, name, options, asked)
    return _submitted(executor, [Sweep(command, str(Path.cwd()), str(code))])[0]


def _executor(outputs: Path, name: str, options: Options, asked: Mapping[str, Any]) -> Any:
    """What submits jobs of this name, each with a folder for what it takes and leaves."""
    import submitit

    folder = outputs / "slurm"
    make_directory(folder)
    folder.chmod(0o700)
    refuse_shared(outputs, folder)
    executor = submitit.SlurmExecutor(folder / name, options.max_num_timeout)
    executor.update_parameters(
        **options.sbatch(),
        **asked,
        job_name=name,
        wckey=None,
        stderr_to_stdout=True,
        srun_args=["--kill-on-bad-exit=1"],
    )
    return executor


def _submitted(executor: Any, work: Sequence[Any]) -> list[str]:
    """The ids of jobs that do this work: one array, if they are several."""
    from submitit.core.utils import FailedJobError

    said = io.StringIO()  # submitit copies there what sbatch says
    try:
        with contextlib.redirect_stderr(said), executor.batch():
            jobs = [executor.submit(each) for each in work]
    except FailedJobError:
        raise _refusal(said.getvalue()) from None
    return [job.job_id for job in jobs]


def refuse_shared(*folders: Path) -> None:
    """Who can write what a job unpickles runs code as its owner."""
    for folder in folders:
        status = folder.stat()
        if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            expected = "a folder that only you may write to, since Slurm jobs run code from it"
            raise invalid_value("outputs", folder, expected, f"say `chmod go-w {folder}`")


def _note(jobs: Sequence[Iterable[Path]], ids: Sequence[str], name: str) -> None:
    for runs, job in zip(jobs, ids, strict=True):
        for run in runs:
            publish_json(place(run), {"job": job, "name": name})


def _refusal(said: str) -> Exception:
    words = [line.removeprefix("sbatch: error: ") for line in said.splitlines()]
    sentence = f"sbatch refused the job: {sanitize('; '.join(words))}"
    return (
        NotNow(sentence) if LATER.search(said) else UserError(f"hydra/launcher=slurm: {sentence}")
    )


def _further(options: Options, held_by: str, code: Path) -> dict[str, Any]:
    held = {"dependency": f"afterok:{held_by}", "kill-on-invalid-dep": "yes"} if held_by else {}
    return {"chdir": str(code), "requeue": True, **options.further(), **held}
