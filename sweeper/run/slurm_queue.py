"""Slurm's queue, asked by its own commands: which jobs there are and how they stand."""

from __future__ import annotations

import signal
import subprocess


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


def cancel(job: str, number: signal.Signals) -> None:
    """Signal the processes of a job that runs; a job that waits is taken out of the queue."""
    name = number.name.removeprefix("SIG")
    for choice in (["--state=PENDING"], [f"--signal={name}", "--state=RUNNING"]):
        subprocess.run(["scancel", *choice, job], capture_output=True, check=False)


def _queue(layout: str) -> list[list[str]] | None:
    command = ["squeue", "--me", "--noheader", "--array", "--states=all", f"--format={layout}"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        return None
    return [line.strip().split("|") for line in told.stdout.splitlines()]
