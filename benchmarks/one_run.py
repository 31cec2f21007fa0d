"""Executes a run in the process of a benchmark, or of another way to start the runs of one."""

from __future__ import annotations

import os
from pathlib import Path


def execute(run: Path) -> None:
    """Train one run; what it prints meanwhile goes to its own log.

    Raises:
        RuntimeError: it did not finish.
    """
    from tasks import train

    kept = [os.dup(number) for number in (1, 2)]
    code = train.main(str(run))
    for number, copy in zip((1, 2), kept, strict=True):
        os.dup2(copy, number)
        os.close(copy)
    if code:
        raise RuntimeError(f"run {run.name} ended with code {code}")
