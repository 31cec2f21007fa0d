"""What trained heads do: (a) the rank of their logits, (b) how widely they attend, by head size."""

from __future__ import annotations

from operator import methodcaller
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeper.results.figures.layout.layout import Entry, lay_out, notes_on
from sweeper.results.figures.layout.panel import Look, prepare, scale
from sweeper.results.figures.layout.series import Mark, marks, split
from sweeper.results.figures.layout.style import DOUBLE_COLUMN, FAINT_INK, MARKERS, RC, blank, ramp
from sweeper.results.table.points import points, seed_spread
from sweeper.results.table.table import Table

METRICS = ("test/attention_rank", "test/attention_entropy")
HEADS, SIZE = "model.heads", "model.head_size"
_PANEL_PT, _ROOM = 170.0, (190.0, 130.0)
_BOUND: dict[str, Any] = {"color": FAINT_INK, "linewidth": 0.7, "linestyle": (0, (4, 3))}


def draw(table: Table) -> Figure:
    """The figure, from a table whose points differ in heads and head size."""
    measured = {metric: points(table, metric) for metric in METRICS}
    spreads = {metric: seed_spread(every) for metric, every in measured.items()}
    done = [point for point in measured[METRICS[0]] if point.values]
    heads = sorted({number for point in done if (number := point.at(HEADS)) is not None})
    looks = {
        number: Look(shade, marker=MARKERS[index % len(MARKERS)])
        for index, (number, shade) in enumerate(zip(heads, ramp(max(1, len(heads))), strict=False))
    }
    with rc_context(RC):
        figure = blank(DOUBLE_COLUMN)
        for axes, metric, letter in zip(figure.subplots(1, 2), METRICS, "ab", strict=True):
            prepare(axes, SIZE, metric, letter=letter)
            curves = [
                (looks[one.key], marks(one.points, methodcaller("at", SIZE), spreads[metric]))
                for one in split(measured[metric], by=methodcaller("at", HEADS))
                if one.key in looks
            ]
            every = [mark for _, curve in curves for mark in curve]
            scale(axes, every, every, room=_ROOM, own=True)
            for look, curve in curves:
                look.draw(axes, curve)
            if metric == METRICS[0]:
                _mark_bound(axes, every)
        bound = Entry((Line2D([], [], **_BOUND),), "(a) the head size, the most it can be")
        lay_out(
            figure,
            _PANEL_PT,
            title=str(table.experiment.get("title") or table.name),
            legend=[
                *(Entry((look.handle(),), f"{h:.0f} heads") for h, look in looks.items()),
                bound,
            ],
            notes=notes_on(table, measured[METRICS[0]], *spreads.values()),
        )
    return figure


def _mark_bound(axes: Axes, every: list[Mark]) -> None:
    """A line where the rank is the head size, as far as the panel reaches."""
    sizes = sorted({mark.x for mark in every})
    if sizes:
        limits = axes.get_ylim()
        axes.plot(sizes, sizes, zorder=1, **_BOUND)
        axes.set_ylim(limits)
