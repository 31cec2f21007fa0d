"""Plans and sweeps from Python, with the overrides of the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING

from headroom_attention.results import frame
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.registry import ROOT

if TYPE_CHECKING:
    from pandas import DataFrame

_NOT_STARTED = 2  # the exit code of a command that could not be understood


def plan(overrides: Sequence[str], *, outputs: str | Path = "outputs") -> DataFrame:
    """Return what a sweep would train: a row for each (experiment, arm, point, seed).

    The columns are those of `table`, and `flops`: the training FLOPs of the whole run. Nothing is
    started and no record is written.

    Args:
        overrides: as after `python sweep.py -m`: `["experiment=fig1", "seed=0,1,2"]`.

    Raises:
        UserError: at least one run could not be trained.
    """
    import pandas as pd

    from sweeper.hydra_section import composer
    from sweeper.plan.planner import Planner
    from sweeper.results.collect import Records
    from sweeper.size_server import SizeServer
    from sweeper.store.runs import RunStore

    loaded = composer()
    given = _typed(overrides, outputs)
    of_sweep = [override for override in given if override.startswith("hydra")]
    most = int(loaded.hydra(of_sweep)["sweeper"]["max_runs"])
    with closing(SizeServer()) as process:
        of_runs = [override for override in given if override not in of_sweep]
        made = Planner(loaded, process, max_runs=most).plan(of_runs)
    tables = Records(RunStore(made.outputs)).tables(made.as_data())
    planned = pd.concat([frame(one, lambda id: made.runs[id].config) for one in tables])
    flops = planned["run"].map({run.id: run.flops for run in made.runs.values()})
    return planned.assign(flops=flops).reset_index(drop=True)


def sweep(overrides: Sequence[str], *, outputs: str | Path = "outputs") -> DataFrame:
    """Train the missing runs of a plan, print progress, and return the plan with its states.

    This runs `python sweep.py -m` with these overrides. An interrupted sweep saves its runs, and
    continues when called again. The columns `state` and `reason` say which runs failed.

    Raises:
        UserError: the sweep could not be planned; nothing was started.
    """
    command = [sys.executable, str(ROOT / "sweep.py"), "-m", *_typed(overrides, outputs)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # this process forwards Ctrl-C
    ) as process:
        assert process.stdout is not None
        line = ""
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
        except KeyboardInterrupt:
            process.send_signal(SIGINT)
            process.wait()
            raise
    if process.returncode == _NOT_STARTED:
        raise UserError(line.strip().removeprefix("error: "))
    return plan(overrides, outputs=outputs)


def _typed(overrides: Sequence[str], outputs: str | Path) -> list[str]:
    """Return the command line; raise UserError if `overrides` is a string."""
    if isinstance(overrides, str):
        remedy = f"give it as {overrides.split()}"
        raise invalid_value(
            "overrides", overrides, "a list with an entry for each override", remedy
        )
    folder = str(outputs).replace("\\", "\\\\").replace("'", "\\'")
    return [*overrides, f"paths.outputs='{folder}'"]
