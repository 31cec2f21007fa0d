"""Functions that plan, train and evaluate experiments from Python.

Slow libraries, such as pandas, are imported inside functions, so that `headroom --help` is fast.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentError, ArgumentParser
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING

from sweeper.store.errors import UserError, invalid_value
from sweeper.store.registry import ROOT

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from sweeper.results.table import Table
    from sweeper.results.verdict import Verdict

_NOT_STARTED = 2  # the exit code of sweep.py if its command line is invalid


def table(experiment: str, *, outputs: str | Path = "outputs") -> DataFrame:
    """Return the table of an experiment, with a row for each (arm, point, seed).

    Unfinished runs have rows, too. The first columns are those of outputs/tables/<experiment>.csv,
    which `COLUMNS` in sweeper/results/table.py describes. The other columns are the remaining keys
    of the runs' configs, such as `optimizer.learning_rate`.

    Raises:
        UserError: the experiment was never planned in `outputs`.
    """
    found = _collected(experiment, outputs)
    return _frame(found)


def verdicts(experiment: str, *, outputs: str | Path = "outputs") -> list[Verdict]:
    """Return a verdict on each claim of an experiment.

    A verdict has the attributes `claim`, `measure`, `verdict`, `sentence` and `numbers`.

    Raises:
        UserError: the experiment was never planned in `outputs`.
    """
    from sweeper.results.judge import verdicts_on

    return verdicts_on(_collected(experiment, outputs))


def judge(
    scores: DataFrame,
    *,
    better: str,
    margin: str | float | None = None,
    pair: str = "seed",
    baseline: str | None = None,
    history: DataFrame | None = None,
) -> list[Verdict]:
    """Compare each arm in a table of scores with the baseline, and return a verdict on each arm.

    Args:
        scores: a row for each arm and seed. The columns `seed`, `value`, and at least one of `arm`
            and `point` are required. The columns `metric`, `flops` and `seconds` are optional.
        better: whether "lower" or "higher" values are better.
        margin: the equivalence margin, such as "1%" or 0.2. With None, no verdict can be "no
            difference".
        pair: the column by which rows are paired. Two rows of different arms form a pair if they
            have the same value in this column.
        baseline: the arm to compare the others with. The default is the first arm.
        history: scores of earlier comparisons, which help to estimate the variance between seeds.
            If there are several comparisons, a column `comparison` names them.

    Raises:
        UserError: a column is missing, or a cell has an invalid value.
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
    """Draw the figure of an experiment from the current results and return it.

    Raises:
        UserError: the experiment was never planned in `outputs`.
    """
    from sweeper.results.figures import figure_of

    return figure_of(_collected(experiment, outputs))


def plan(overrides: Sequence[str], *, outputs: str | Path = "outputs") -> DataFrame:
    """Return the runs that a sweep would train: a row for each (experiment, arm, point, seed).

    The result has the columns of `table`, and the column `flops` with the training FLOPs of each
    run. If an experiment tunes a key such as the learning rate, the rows with the experiment
    `<experiment>_trials` are the runs that find the key's best value. This function trains nothing
    and writes no record.

    Args:
        overrides: the arguments of `python sweep.py -m`, such as `["experiment=fig1",
            "seed=0,1,2"]`.

    Raises:
        UserError: an override is invalid, or a run could not be trained.
    """
    import pandas as pd

    from sweeper.hydra_section import composer
    from sweeper.plan.planner import Planner
    from sweeper.results.collect import Records
    from sweeper.size_server import SizeServer
    from sweeper.store.runs import RunStore

    folder, given = _split_overrides(overrides, outputs)
    loaded = composer(config_dir=folder)
    of_sweep = [override for override in given if override.startswith("hydra")]
    most = int(loaded.hydra(of_sweep)["sweeper"]["max_runs"])
    with closing(SizeServer()) as process:
        of_runs = [override for override in given if override not in of_sweep]
        made = Planner(loaded, process, max_runs=most).plan(of_runs)
        if made.tuned:
            from sweeper.stages.tune import Tuning

            made = Tuning.of(made, process, RunStore(made.outputs)).whole
    configs = {run.id: run.config for run in made.runs.values()}
    tables = Records(RunStore(made.outputs), configs).tables(made.as_data())
    planned = pd.concat([_frame(one) for one in tables])
    flops = planned["run"].map({run.id: run.flops for run in made.runs.values()})
    return planned.assign(flops=flops).reset_index(drop=True)


def sweep(overrides: Sequence[str], *, outputs: str | Path = "outputs") -> DataFrame:
    """Plan a sweep, train its unfinished runs, print progress, and return a table of all its runs.

    This function runs `python sweep.py -m` with these overrides. After an interruption, call it
    again to continue the saved runs.

    The returned table has the same rows as `plan(overrides)`. Its columns `state` and `reason` show
    which runs failed. With `hydra.sweeper.decide=true`, the sweep adds seeds in later rounds.
    `table(experiment)` has rows for these, but the returned table does not.

    Raises:
        UserError: the plan is invalid. Nothing was trained.
    """
    folder, given = _split_overrides(overrides, outputs)
    own = [] if folder is None else ["--config-dir", folder]
    command = [sys.executable, str(ROOT / "sweep.py"), *own, "-m", *given]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Ctrl-C must reach the sweep only once. The handler below forwards it.
        start_new_session=True,
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


def _split_overrides(
    overrides: Sequence[str], outputs: str | Path
) -> tuple[str | None, list[str]]:
    """Separate `--config-dir FOLDER` from the other overrides.

    Returns:
        A pair: FOLDER (None without `--config-dir`), and a list of all other overrides. The list
        also has an override that sets the outputs folder.

    Raises:
        UserError: `overrides` is not a list of strings, or it contains another flag.
    """
    if isinstance(overrides, str):
        expected = "a list with an entry for each override"
        remedy = f"pass {overrides.split()}"
        raise invalid_value("overrides", overrides, expected, remedy)
    if wrong := [one for one in overrides if not isinstance(one, str)]:
        raise invalid_value(
            "overrides", wrong[0], "strings such as 'model.heads=4'", "quote it"
        )
    from sweeper.plan.overrides import folder_override

    parser = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config-dir", "-cd")
    try:
        given, rest = parser.parse_known_args(list(overrides))
    except ArgumentError:
        raise UserError(
            "overrides: --config-dir has no folder; add the folder as the next entry of the list."
        ) from None
    if flags := [one for one in rest if one.startswith("-")]:
        expected = "no flag other than --config-dir"
        raise invalid_value("overrides", flags[0], expected, "remove it")
    return given.config_dir, [*rest, folder_override("paths.outputs", outputs)]


def _frame(collected: Table) -> DataFrame:
    """Return a table as a DataFrame, with additional columns for all keys of the runs' configs."""
    import pandas as pd

    from sweeper.results.collect import plain

    rows = []
    for row in collected.rows:
        measured = {key: row.get(key) for key in collected.columns}
        config = collected.files[row["run"]].config
        settings = {key: plain(value) for key, value in config.items()}
        # Let the config fill the empty cells of the table.
        known = {key: value for key, value in measured.items() if value is not None}
        # If an arm varies no key, the name of its only point is None. Use "" instead, because
        # `DataFrame.groupby` drops rows with None.
        rows.append({**measured, **settings, **known, "point": row["point"] or ""})
    return pd.DataFrame(rows)


def _collected(experiment: str, outputs: str | Path) -> Table:
    from sweeper.results.collect import collect

    [found] = collect(Path(outputs), [experiment])
    return found
