"""The tuning of an experiment: the validation metric over each tuned key, with the chosen values.

The table is that of an experiment's trials. Each choice has a curve in a shade of its arm's colour,
and a ring marks the chosen value. With several tuned keys, a curve shows the best value over the
other keys.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial

from matplotlib.figure import Figure

from sweeper.results import panel
from sweeper.results.choices import choices, setting_of, settled, tuned_keys
from sweeper.results.figures.curves import (
    MOST_ENTRIES,
    legend_of,
    names_of,
    places,
    series_by,
)
from sweeper.results.points import points, seed_spread
from sweeper.results.table import Table, direction
from sweeper.store.errors import UserError

_PANEL_PT = 170.0


def draw(table: Table) -> Figure:
    """Draw a table of trials; rings appear once every choice is made."""
    tuned = tuned_keys(table)
    keys = tuned or [str(table.experiment.get("x") or "params_total")]
    everything = points(table, table.metric)
    spread = seed_spread(everything)
    series = series_by(partial(setting_of, table), everything)
    known = panel.curve_looks(
        table.experiment["arms"], [(one.arm, one.key) for one in series]
    )
    looks = [replace(known[one.arm, one.key], line=True) for one in series]
    chosen: set[str] = (
        set()
    )  # runs; empty until all trials are done, or if they decide nothing
    if tuned and settled(table):
        with suppress(UserError):
            chosen = {run for choice in choices(table) for run in choice.best}
    sign = direction(table.metric)

    def ringed(mark: panel.Mark) -> bool:
        return bool(chosen & {*mark.point.runs.values()})

    figure = Figure(figsize=(panel.COLUMN, panel.COLUMN))
    for place, key in enumerate(keys):
        axes = figure.add_subplot(len(keys), 1, place + 1)
        at, words = places(series, key)
        curves = []
        for look, one in zip(looks, series, strict=True):
            best: dict[float, panel.Mark] = {}
            own = panel.marks(one.points, at, spread)
            for mark in sorted(own, key=lambda m: (not ringed(m), -sign * m.mean)):
                best.setdefault(mark.x, mark)
            curves.append((look, sorted(best.values(), key=lambda mark: mark.x)))
        panel.fill(axes, key, table.metric, curves, own=bool(tuned), exact=True)
        if words:
            panel.categories(axes, words)
        rings = [mark for _, curve in curves for mark in curve if ringed(mark)]
        xs, ys = [mark.x for mark in rings], [mark.mean for mark in rings]
        axes.plot(
            xs,
            ys,
            "o",
            markersize=8,
            markerfacecolor="none",
            markeredgecolor=panel.INK,
            zorder=6,
        )
    notes = [
        *["Ring: chosen."] * bool(chosen),
        *panel.notes_on(table, everything, spread),
    ]
    by_arm = panel.looks_of(table.experiment["arms"]).items()
    arms = {arm: replace(look, line=True) for arm, look in by_arm}
    few = len(series) <= MOST_ENTRIES
    legend = (
        legend_of(names_of(table, series), looks)
        if few
        else panel.legend_of(table, arms)
    )
    panel.lay_out(figure, _PANEL_PT * len(keys), table, legend, notes)
    return figure
