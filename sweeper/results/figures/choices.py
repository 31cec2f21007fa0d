"""The tuning of an experiment: the validation metric over each tuned key, with the chosen values.

The table is that of an experiment's trials. Each setting has a curve in a shade of its arm's
colour, and a ring marks the chosen value. Each tuned key has a panel.
"""

from contextlib import suppress
from functools import partial

from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.choices import choices, settled, tuned_keys
from sweeper.results.figures.curves import key_of, named, places
from sweeper.results.points import points, settings_apart
from sweeper.results.table import Table
from sweeper.store.errors import UserError


def draw(table: Table) -> Figure:
    """Draw a table of trials; rings appear once every choice is made."""
    tuned = tuned_keys(table)
    keys = tuned or [str(table.experiment.get("x") or "params_total")]
    chosen: set[str] = set()  # runs
    if tuned and settled(table):
        with suppress(UserError):  # all trials of a choice diverged
            chosen = {run for choice in choices(table) for run in choice.best}

    every = points(table, table.metric)
    figure = Figure(figsize=(layout.COLUMN, layout.COLUMN))
    panels = figure.subplots(len(keys), 1, squeeze=False)[:, 0]
    for axes, key in zip(panels, keys, strict=True):
        by = partial(key_of, settings_apart(every, key))
        curves = panel.Curves(table, every, by=by)
        at, words = places(curves, key)
        marks = [mark for own in curves.draw(axes, key, at=at) for mark in own]
        if words:
            panel.categories(axes, words)
        best = [mark for mark in marks if chosen & {*mark.point.runs.values()}]
        rings = [(mark.x, mark.mean) for mark in best]
        panel.ring(axes, rings, color=layout.INK, markersize=8)

    notes = ["Ring: chosen."] if chosen else []
    return panel.finish(figure, 170 * len(keys), named(curves), curves, notes=notes)
