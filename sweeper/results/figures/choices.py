"""The tuning of an experiment: the validation metric over each tuned key, with the chosen values.

The table is that of an experiment's trials. Each choice has a curve in a shade of its arm's colour,
and a ring marks the chosen value. With several tuned keys, a curve shows the best value over the
other keys.
"""

from contextlib import suppress
from functools import partial

from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.choices import choices, setting_of, settled, tuned_keys
from sweeper.results.figures.curves import MOST_ENTRIES, key_of, named, places
from sweeper.results.points import points
from sweeper.results.table import Table, direction, label
from sweeper.store.errors import UserError


def draw(table: Table) -> Figure:
    """Draw a table of trials; rings appear once every choice is made."""
    tuned = tuned_keys(table)
    keys = tuned or [str(table.experiment.get("x") or "params_total")]
    by = partial(key_of, partial(setting_of, table))
    curves = panel.Curves(table, points(table, table.metric), by=by)

    chosen: set[str] = set()  # runs
    if tuned and settled(table):
        with suppress(UserError):  # all trials of a choice diverged
            chosen = {run for choice in choices(table) for run in choice.best}
    sign = direction(table.metric)

    def is_chosen(mark: panel.Mark) -> bool:
        return bool(chosen & {*mark.point.runs.values()})

    figure = Figure(figsize=(layout.COLUMN, layout.COLUMN))
    panels = figure.subplots(len(keys), 1, squeeze=False)[:, 0]
    for axes, key in zip(panels, keys, strict=True):
        at, words = places(curves, key)
        drawn = []
        for curve in curves.every:
            own = curves.marks(curve, at)
            own.sort(key=lambda mark: (is_chosen(mark), sign * mark.mean))
            best = {mark.x: mark for mark in own}  # the last one at each place
            drawn.append((curve.look, [best[x] for x in sorted(best)]))

        panel.fill(axes, key, label(table.metric), drawn)
        if words:
            panel.categories(axes, words)
        marks = [mark for _, own in drawn for mark in own if is_chosen(mark)]
        rings = [(mark.x, mark.mean) for mark in marks]
        panel.ring(axes, rings, color=layout.INK, markersize=8)

    notes = ["Ring: chosen."] if chosen else []
    few = len(curves.every) <= MOST_ENTRIES
    legend = named(curves) if few else panel.legend_of(table)
    return panel.finish(figure, 170 * len(keys), legend, curves, notes=notes)
