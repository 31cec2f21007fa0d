"""A sweep whose runs are mirrored in W&B, and the command that shows it there."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import wandb

from sweeper.__main__ import main
from tests.sweeper.results.grids import FEW, figure1
from tests.sweeper.results.synthetic import Sweep

LOGGER = {"name": "wandb", "mode": "online", "project": "headroom", "entity": None}


def sweep() -> Sweep:
    """A small Figure 1 whose records say where they are mirrored."""
    made = figure1(grid=FEW, seeds=2)
    for record in made.records.values():
        record["config"]["logger"] = LOGGER
    return made


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


def command(outputs: Path, *words: str) -> Done:
    """A command in a process of its own: this one goes on to fork jobs, which W&B would not stand.

    A fork, for W&B takes seconds to import.
    """
    outputs.mkdir(exist_ok=True)
    files = [outputs / "out.txt", outputs / "err.txt"]
    with warnings.catch_warnings():
        # Python >= 3.12 warns of the server's threads, of which the command needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 70
        try:
            sys.stdout, sys.stderr = (path.open("w") for path in files)
            code = main([*words, f"--outputs={outputs}"])
            wandb.teardown()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return Done(code, *(path.read_text() for path in files))
