"""A figure of accuracy over head size, with every seed, the means and their intervals."""

from __future__ import annotations

from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.points import points
from sweeper.results.table import Table


def draw(table: Table) -> Figure:
    """Return the figure for a table whose points differ in head size."""
    curves = panel.Curves(table, points(table, table.metric))
    figure, [axes] = layout.panels(1)
    curves.draw(axes, "model.head_size")
    return panel.finish(figure, 150, panel.legend_of(curves), curves)
