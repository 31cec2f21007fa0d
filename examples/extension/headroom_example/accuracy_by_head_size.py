"""Accuracy over head size: every seed, means, and their intervals."""

from __future__ import annotations

from operator import methodcaller

from matplotlib.figure import Figure

from sweeper.results.panel import (
    COLUMN,
    fill,
    lay_out,
    legend_of,
    looks_of,
    marks,
    notes_on,
    split,
)
from sweeper.results.points import Measure, seed_spread
from sweeper.results.table import Table

SIZE = "model.head_size"
_PANEL_PT = 150.0


def draw(table: Table) -> Figure:
    """The figure, from a table whose points differ in head size."""
    points = Measure("", table.metric).points(table)
    spread = seed_spread(points)
    looks = looks_of(table.experiment["arms"])
    figure = Figure(figsize=(COLUMN, COLUMN))
    curves = [
        (looks[one.arm], marks(one.points, methodcaller("at", SIZE), spread))
        for one in split(points, by=lambda point: None)
    ]
    fill(figure.subplots(), SIZE, table.metric, curves, own=True)
    notes = notes_on(table, points, spread)
    lay_out(figure, _PANEL_PT, table, legend_of(table, looks), notes)
    return figure
