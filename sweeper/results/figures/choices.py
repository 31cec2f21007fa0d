"""What was chosen, and by what: the validation metric over each tuned key, a curve for each choice.

In: the table of an experiment's trials. A ring is where a choice fell: inside the range, or at an
end of it. The choices of an arm are shades of its colour; where several keys are tuned, a curve has
the best of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sweeper.results.choices import choices, setting_of, settled, tuned_keys
from sweeper.results.figures.curves import places
from sweeper.results.figures.layout.panel import (
    COLUMN,
    INK,
    RC,
    Mark,
    categories,
    curve_looks,
    fill,
    lay_out,
    legend_of,
    looks_of,
    marks,
    notes_on,
    split,
)
from sweeper.results.points import points, seed_spread
from sweeper.results.table import Table, direction
from sweeper.store.errors import UserError

_PANEL_PT = 170.0


@rc_context(RC)
def draw(table: Table) -> Figure:
    """The figure, from the table of trials; with rings once every choice is made."""
    tuned = tuned_keys(table)
    keys = tuned or [str(table.experiment.get("x") or "params_total")]
    everything = points(table, table.metric)
    spread = seed_spread(everything)
    series = split(everything, by=lambda point: setting_of(table, point))
    known = curve_looks(table.experiment["arms"], [(one.arm, one.key) for one in series])
    looks = [replace(known[one.arm, one.key], line=True) for one in series]
    chosen = _chosen(table)
    figure = Figure(figsize=(COLUMN, COLUMN))
    for place, key in enumerate(keys):
        axes = figure.add_subplot(len(keys), 1, place + 1)
        at, words = places(series, key)
        curves = [_best(marks(one.points, at, spread), table.metric) for one in series]
        fill(axes, key, table.metric, [*zip(looks, curves, strict=True)], own=bool(tuned))
        if words:
            categories(axes, words)
        every = [mark for curve in curves for mark in curve]
        _ring(axes, [mark for mark in every if chosen & {*mark.point.runs.values()}])
    notes = [*["Ring: chosen."] * bool(chosen), *notes_on(table, everything, spread)]
    arms = {
        arm: replace(look, line=True) for arm, look in looks_of(table.experiment["arms"]).items()
    }
    lay_out(figure, _PANEL_PT * len(keys), table, legend_of(table, arms), notes)
    return figure


def _chosen(table: Table) -> set[str]:
    """The runs of what was chosen; none before all trials are done, or if they decide nothing."""
    if not tuned_keys(table) or not settled(table):
        return set()
    with suppress(UserError):
        return {run for choice in choices(table) for run in choice.best}
    return set()


def _best(curve: Sequence[Mark], metric: str) -> list[Mark]:
    found: dict[float, Mark] = {}
    sign = direction(metric)
    for mark in curve:
        if mark.x not in found or sign * (mark.mean - found[mark.x].mean) > 0:
            found[mark.x] = mark
    return list(found.values())


def _ring(axes: Axes, chosen: Sequence[Mark]) -> None:
    xs, ys = [mark.x for mark in chosen], [mark.mean for mark in chosen]
    axes.plot(xs, ys, "o", markersize=8, markerfacecolor="none", markeredgecolor=INK, zorder=6)
