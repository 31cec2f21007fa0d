"""Slurm's queue, asked by its own commands: which jobs there are and how they stand."""

from __future__ import annotations

import signal
import subprocess

ENDS = (signal.SIGTERM, signal.SIGKILL)


def states() -> dict[str, str] | None:
    """The state of each job of this user by id, ended ones included for the minutes they are kept.

    None if the controller does not answer.
    """
    rows = _queue("%i|%T")
    return None if rows is None else {row[0]: row[1] for row in rows}


def names() -> dict[str, str]:
    """The name of each job of this user that waits or runs, by id."""
    rows = _queue("%i|%j|%T")
    active = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "REQUEUED", "COMPLETING")
    return {row[0]: row[1] for row in rows or [] if row[2] in active}


def send(job: str, number: signal.Signals) -> None:
    """Signal the processes of a job that runs; one that waits leaves the queue if it is to end."""
    name = number.name.removeprefix("SIG")
    choices = [[f"--signal={name}", "--state=RUNNING"]]
    if number in ENDS:
        choices.insert(0, ["--state=PENDING"])
    for choice in choices:
        subprocess.run(["scancel", *choice, job], capture_output=True, check=False)


def _queue(layout: str) -> list[list[str]] | None:
    command = ["squeue", "--me", "--noheader", "--array", "--states=all", f"--format={layout}"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        return None
    return [line.strip().split("|") for line in told.stdout.splitlines()]
