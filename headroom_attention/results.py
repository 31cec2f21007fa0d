"""Results of an experiment: its table as a DataFrame, its verdicts and its figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Numeric libraries are imported where they are needed: asking a command for help needs none.
if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from sweeper.results.claims.evidence.verdict import Verdict
    from sweeper.results.table import Table


def table(experiment: str, *, outputs: str | Path = "outputs") -> DataFrame:
    """Return a row for each (arm, point, seed) of an experiment, whether its run is done or not.

    The columns are those of outputs/tables/<experiment>.csv (sweeper/results/collect.py describes
    them), then every other key of the configs, such as `optimizer.learning_rate`.

    Raises:
        UserError: the experiment was never planned in `outputs`.
    """
    from sweeper.store.errors import UserError
    from sweeper.store.runs import RunStore

    store = RunStore(Path(outputs))

    def config(id: str) -> Mapping[str, Any]:
        with suppress(UserError):  # a damaged record: the column `reason` says so
            found: Mapping[str, Any] = store.run(id).record()["config"]
            return found
        return {}

    return frame(_collected(experiment, outputs), config)


def verdicts(experiment: str, *, outputs: str | Path = "outputs") -> list[Verdict]:
    """Return a verdict for each claim: `claim`, `measure`, `verdict`, `sentence`, `numbers`.

    Raises:
        UserError: the experiment was never planned in `outputs`.
    """
    from sweeper.results.judge import verdicts_on

    return verdicts_on(_collected(experiment, outputs))


def figure(experiment: str, *, outputs: str | Path = "outputs") -> Figure:
    """Return the figure of an experiment, drawn anew from the records.

    Raises:
        UserError: the experiment was never planned in `outputs`.
    """
    from sweeper.results.draw import figure_of

    return figure_of(_collected(experiment, outputs))


def frame(collected: Table, config: Callable[[str], Mapping[str, Any]]) -> DataFrame:
    """Return the rows of a table, each with the other keys of its run's config."""
    import pandas as pd

    from sweeper.results.collect import plain
    from sweeper.store.identity import leaves

    rows = []
    for row in collected.rows:
        measured = {key: row.get(key) for key in collected.columns}
        settings = {key: plain(value) for key, value in leaves(config(row["run"]))}
        rows.append({**measured, **settings, **measured})
    return pd.DataFrame(rows)


def _collected(experiment: str, outputs: str | Path) -> Table:
    from sweeper.results.collect import collect

    [found] = collect(Path(outputs), [experiment])
    return found
