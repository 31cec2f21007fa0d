"""Experiments from Python: plan them, train them, read their tables, verdicts and figures.

Numeric libraries are imported where they are needed: asking a command for help needs none.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentError, ArgumentParser
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, Any

from sweeper.store.errors import UserError, invalid_value
from sweeper.store.registry import ROOT

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from sweeper.results.table import Table
    from sweeper.results.verdict import Verdict

_NOT_STARTED = 2  # the exit code of a command that could not be understood


def table(experiment: str, *, outputs: str | Path = "outputs") -> DataFrame:
    """Return a row for each (arm, point, seed) of an experiment, whether its run is done or not.

    The columns are those of outputs/tables/<experiment>.csv (`COLUMNS` in sweeper/results/table.py
    describes them), then every other key of the configs, such as `optimizer.learning_rate`.

    Raises:
        UserError: the experiment was never planned in `outputs`.
    """
    found = _collected(experiment, outputs)
    return _frame(found, {run: files.config for run, files in found.files.items()})


def verdicts(experiment: str, *, outputs: str | Path = "outputs") -> list[Verdict]:
    """Return a verdict for each claim: `claim`, `measure`, `verdict`, `sentence`, `numbers`.

    Raises:
        UserError: the experiment was never planned in `outputs`.
    """
    from sweeper.results.judge import verdicts_on

    return verdicts_on(_collected(experiment, outputs))


def judge(
    scores: DataFrame,
    *,
    better: str,
    margin: str | None = None,
    pair: str = "seed",
    baseline: str | None = None,
    history: DataFrame | None = None,
) -> list[Verdict]:
    """Return a verdict on each arm of a frame of scores, against the baseline.

    Args:
        scores: a row for each arm and seed, with the columns `arm` (or `point`, or both), `seed`
            and `value`, and with `metric`, `flops` and `seconds` if there are any.
        better: "lower" or "higher".
        margin: the largest difference that counts as none, such as "1%" or "0.2"; None for none.
        pair: the column that pairs the rows of two arms.
        baseline: the arm that the others are compared with; the first one by default.
        history: scores of earlier comparisons, which lend the spread between their seeds. Its
            column `comparison` tells several comparisons apart.

    Raises:
        UserError: a column is missing, or a cell cannot be judged.
    """
    from sweeper.results.scores import judge_scores

    return judge_scores(
        scores,
        better=better,
        margin=margin,
        pair=pair,
        baseline=baseline,
        history=history,
    )


def figure(experiment: str, *, outputs: str | Path = "outputs") -> Figure:
    """Return the figure of an experiment, drawn anew from the records.

    Raises:
        UserError: the experiment was never planned in `outputs`.
    """
    from sweeper.results.figures import figure_of

    return figure_of(_collected(experiment, outputs))


def plan(overrides: Sequence[str], *, outputs: str | Path = "outputs") -> DataFrame:
    """Return what a sweep would train: a row for each (experiment, arm, point, seed).

    The columns are those of `table`, and `flops`: the training FLOPs of the whole run. Trials that
    choose values are rows of `<experiment>_trials`. Nothing is started and no record is written.

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
    from sweeper.store.identity import leaves
    from sweeper.store.runs import RunStore

    folder, given = _typed(overrides, outputs)
    loaded = composer(config_dir=folder)
    of_sweep = [override for override in given if override.startswith("hydra")]
    most = int(loaded.hydra(of_sweep)["sweeper"]["max_runs"])
    with closing(SizeServer()) as process:
        of_runs = [override for override in given if override not in of_sweep]
        made = Planner(loaded, process, max_runs=most).plan(of_runs)
        if made.tuned:
            from sweeper.tune import Tuning

            made = Tuning.of(made, process, RunStore(made.outputs)).whole
    tables = Records(RunStore(made.outputs)).tables(made.as_data())
    configs = {run.id: leaves(run.config) for run in made.runs.values()}
    planned = pd.concat([_frame(one, configs) for one in tables])
    flops = planned["run"].map({run.id: run.flops for run in made.runs.values()})
    return planned.assign(flops=flops).reset_index(drop=True)


def sweep(overrides: Sequence[str], *, outputs: str | Path = "outputs") -> DataFrame:
    """Train the missing runs of a plan, print progress, and return the plan with its states.

    This runs `python sweep.py -m` with these overrides. An interrupted sweep saves its runs, and
    continues when called again. The columns `state` and `reason` say which runs failed. Seeds that
    rounds bought (`hydra.sweeper.decide=true`) are in `table(experiment)`.

    Raises:
        UserError: the sweep could not be planned; nothing was started.
    """
    folder, given = _typed(overrides, outputs)
    own = [] if folder is None else ["--config-dir", folder]
    command = [sys.executable, str(ROOT / "sweep.py"), *own, "-m", *given]
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


def _typed(
    overrides: Sequence[str], outputs: str | Path
) -> tuple[str | None, list[str]]:
    """Return the folder after `--config-dir`, if it is given, and the overrides.

    Raises:
        UserError: `overrides` is a string, or has another flag.
    """
    if isinstance(overrides, str):
        expected = "a list with an entry for each override"
        remedy = f"give it as {overrides.split()}"
        raise invalid_value("overrides", overrides, expected, remedy)
    if wrong := [one for one in overrides if not isinstance(one, str)]:
        raise invalid_value(
            "overrides", wrong[0], "texts, as 'model.heads=4'", "quote it"
        )
    from sweeper.plan.overrides import outputs_override

    parser = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config-dir", "-cd")
    try:
        given, typed = parser.parse_known_args(list(overrides))
    except ArgumentError as error:
        raise UserError(f"overrides: {error}; give it a folder.") from None
    if flags := [one for one in typed if one.startswith("-")]:
        expected = "no flag but --config-dir"
        raise invalid_value("overrides", flags[0], expected, "leave it out")
    return given.config_dir, [*typed, outputs_override(outputs)]


def _frame(collected: Table, configs: Mapping[str, Mapping[str, Any]]) -> DataFrame:
    """Return the rows of a table, each with the other keys of its run's config, by dotted key."""
    import pandas as pd

    from sweeper.results.collect import plain

    rows = []
    for row in collected.rows:
        measured = {key: row.get(key) for key in collected.columns}
        settings = {
            key: plain(value) for key, value in configs.get(row["run"], {}).items()
        }
        # Before a run is trained, its row has only what its own arm varies.
        known = {key: value for key, value in measured.items() if value is not None}
        # A point that varies nothing has no words; pandas leaves groups of None out.
        rows.append({**measured, **settings, **known, "point": row["point"] or ""})
    return pd.DataFrame(rows)


def _collected(experiment: str, outputs: str | Path) -> Table:
    from sweeper.results.collect import collect

    [found] = collect(Path(outputs), [experiment])
    return found
