"""Accuracy over head size: every seed, means, and their intervals."""

from __future__ import annotations

from operator import methodcaller

from matplotlib import rc_context
from matplotlib.figure import Figure

from sweeper.results.figures.layout.layout import Entry, lay_out, notes_on
from sweeper.results.figures.layout.panel import Look, prepare, scale
from sweeper.results.figures.layout.series import marks
from sweeper.results.figures.layout.style import COLUMN, PALETTE, RC, blank
from sweeper.results.table.measures import Measure
from sweeper.results.table.points import seed_spread
from sweeper.results.table.table import Table

SIZE = "model.head_size"
_PANEL_PT, _ROOM = 150.0, (190.0, 115.0)


def draw(table: Table) -> Figure:
    """The figure, from a table whose points differ in head size."""
    points = Measure("", table.metric).points(table)
    spread = seed_spread(points)
    arms = list(table.experiment["arms"])
    looks = {arm: Look(colour) for arm, colour in zip(arms, PALETTE, strict=False)}
    with rc_context(RC):
        figure = blank(COLUMN)
        axes = figure.subplots()
        prepare(axes, SIZE, table.metric)
        every = marks(points, methodcaller("at", SIZE), spread)
        scale(axes, every, every, room=_ROOM, own=True)
        for arm, look in looks.items():
            look.draw(axes, [mark for mark in every if mark.point.arm == arm])
        lay_out(
            figure,
            _PANEL_PT,
            title=str(table.experiment.get("title") or table.name),
            legend=[Entry((look.handle(),), table.label(arm)) for arm, look in looks.items()],
            notes=notes_on(table, points, spread),
        )
    return figure
