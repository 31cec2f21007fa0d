"""Slurm's queue, asked by its own commands: which jobs there are and how they stand."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Collection

ENDS = (signal.SIGTERM, signal.SIGKILL)


def states() -> dict[str, str] | None:
    """The state of each job of this user by id, ended ones included for the minutes they are kept.

    None if the controller does not answer.
    """
    rows = _queue("%i|%T")
    return None if rows is None else {row[0]: row[1] for row in rows}


def names() -> dict[str, str] | None:
    """The name of each job of this user that waits or runs, by id.

    None if the controller does not answer.
    """
    rows = _queue("%i|%j|%T")
    active = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "REQUEUED", "COMPLETING")
    return None if rows is None else {row[0]: row[1] for row in rows if row[2] in active}


def accounted(jobs: Collection[str]) -> dict[str, str]:
    """The states of jobs that the queue has forgotten, by id; none where there is no accounting."""
    ids = ["--jobs", ",".join(jobs), "--allocations"]
    rows = rows_of(["sacct", *ids, "--noheader", "--parsable2", "--format=JobID,State"])
    return {row[0]: row[1].split()[0] for row in rows or []}  # "CANCELLED by 0" is one of them


def send(job: str, number: signal.Signals) -> None:
    """Signal the processes of a job that runs; one that waits leaves the queue if it is to end."""
    name = number.name.removeprefix("SIG")
    choices = [[f"--signal={name}", "--state=RUNNING"]]
    if number in ENDS:
        choices.insert(0, ["--state=PENDING"])
    for choice in choices:
        subprocess.run(["scancel", *choice, job], capture_output=True, check=False)


def _queue(layout: str) -> list[list[str]] | None:
    return rows_of(
        ["squeue", "--me", "--noheader", "--array", "--states=all", f"--format={layout}"]
    )


def rows_of(command: list[str]) -> list[list[str]] | None:
    """What one of Slurm's commands tells, split at "|"; None where it is missing or fails."""
    if shutil.which(command[0]) is None:
        return None
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        return None
    return [line.strip().split("|") for line in told.stdout.splitlines()]
