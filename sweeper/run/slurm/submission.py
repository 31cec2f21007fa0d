"""Handing jobs in, through submitit: equal jobs at a time, as one array."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sweeper.run.context import Resources
from sweeper.run.slurm.job import Work, place
from sweeper.run.slurm.limits import LATER
from sweeper.run.slurm.options import Options
from sweeper.store.errors import UserError, shown, wrong
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
    """Have Slurm execute jobs, each the runs it is given, by the code in a folder, once the job
    that they are held by is completed; their ids.

    Which job a run is of is on disk before Slurm hears of it: should Slurm have taken a job of
    which it said otherwise, that job finds its runs handed in under another name, and leaves them.

    Raises:
        NotNow: none of them was taken, but might be later.
        UserError: they cannot be taken, or others may write to what they execute.
    """
    import submitit

    folder = outputs / "slurm"
    make_directory(folder)
    folder.chmod(0o700)
    refuse_shared(outputs, folder)
    # New for each batch: a cluster that was set up again counts its jobs from 1 again, and
    # submitit would take what an old job of that number left for its own.
    name = secrets.token_hex(6)
    executor = submitit.SlurmExecutor(folder / name, options.max_num_timeout)
    executor.update_parameters(
        **options.sbatch(),
        **options.request(needed),
        job_name=name,
        wckey=None,
        stderr_to_stdout=True,
        srun_args=["--kill-on-bad-exit=1"],
        additional_parameters={**options.further(), **_further(held_by, code)},
    )
    _note(jobs, [""] * len(jobs), name)
    said = io.StringIO()  # submitit copies there what sbatch says
    try:
        with contextlib.redirect_stderr(said), executor.batch():
            handed = [executor.submit(Work([*map(str, runs)], str(code), name)) for runs in jobs]
    except submitit.core.utils.FailedJobError:
        raise _refusal(said.getvalue()) from None
    ids = [job.job_id for job in handed]
    _note(jobs, ids, name)
    return ids


def refuse_shared(*folders: Path) -> None:
    """Who can write what a job unpickles runs code as its owner."""
    for folder in folders:
        status = folder.stat()
        if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            expected = "a folder that only you may write to, since Slurm jobs run code from it"
            raise wrong("outputs", folder, expected, f"say `chmod go-w {folder}`")


def _note(jobs: Sequence[Sequence[Path]], ids: Sequence[str], name: str) -> None:
    for runs, job in zip(jobs, ids, strict=True):
        for run in runs:
            publish_json(place(run), {"job": job, "name": name})


def _refusal(said: str) -> Exception:
    words = [line.removeprefix("sbatch: error: ") for line in said.splitlines()]
    sentence = f"sbatch refused the job: {shown('; '.join(words))}"
    return (
        NotNow(sentence) if LATER.search(said) else UserError(f"hydra/launcher=slurm: {sentence}")
    )


def _further(held_by: str, code: Path) -> dict[str, Any]:
    held = {"dependency": f"afterok:{held_by}", "kill-on-invalid-dep": "yes"} if held_by else {}
    return {"chdir": str(code), "requeue": True, **held}
