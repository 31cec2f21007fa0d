"""Sweeps whose runs are mirrored in W&B, and the commands that show and take them."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import wandb

from sweeper.__main__ import main
from sweeper.store.mirrored import KEY, PLAN, carried
from sweeper.store.plans import newest
from sweeper.store.runs import RunStore
from tests.sweeper.results.grids import FEW, figure1
from tests.sweeper.results.synthetic import Sweep
from tests.wandb_answers import Remote, WandbServer

LOGGER = {"name": "wandb", "mode": "online", "project": "headroom", "entity": None}


def sweep(unfinished: bool = False) -> Sweep:
    """A small Figure 1 whose records say where they are mirrored; one embedding size not done."""
    made = figure1(
        grid=FEW,
        seeds=2,
        done=lambda arm, model, seed: not (unfinished and model.embedding_size == 96),
    )
    for record in made.records.values():
        record["config"]["logger"] = LOGGER
    return made


def mirror(outputs: Path, server: WandbServer, *, plan: bool = True) -> None:
    """What the mirrors of all runs in `outputs`, and `dashboard`, have told the server."""
    if plan:
        shown = server.runs["experiment-fig1"] = Remote("experiment-fig1", "headroom")
        shown.about["groupName"] = "fig1"
        shown.config[KEY] = {"value": {PLAN: json.dumps(newest(outputs)["fig1"])}}
    for id in RunStore(outputs).ids():
        run = RunStore(outputs).run(id)
        texts = carried(run)
        remote = server.runs[id] = Remote(id, "headroom")
        remote.about["groupName"] = run.record()["names"]["experiment"]
        remote.config[KEY] = {"value": {"record": texts.pop("record")}}
        if texts:
            remote.summary, remote.state = {KEY: texts}, "finished"


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
