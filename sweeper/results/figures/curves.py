"""The default figure: the metric over the experiment's `x`, a curve for each arm and setting.

For a grid from the command line, the first key of the grid is the x-axis, and each combination of
the other keys has a curve.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.collect import plain
from sweeper.results.points import Point, points, settings_apart, trigram_curve
from sweeper.results.table import Data, Table, label

MOST_ENTRIES = 12  # the most lines of a legend

Key = tuple[tuple[str, Any], ...]
"""The settings that distinguish a curve from others of its arm."""


def draw(table: Table) -> Figure:
    """Draw any table."""
    x = str(table.experiment.get("x") or "params_total")
    every = points(table, table.metric)
    by = partial(key_of, settings_apart(every, x))
    curves = panel.Curves(table, every, by=by)
    at, words = places(curves, x)

    figure, [axes] = layout.panels(1)
    marks = curves.draw(axes, x, at=at)
    trigram = trigram_curve(table, x)
    if trigram and any(marks):
        axes.plot(*zip(*trigram, strict=True), zorder=1, **panel.GUIDE)
        panel.guide_words(axes, "trigram", trigram[-1])

    # If the x-axis names the arms, a legend would repeat it.
    arms_named = x == "arm" and len(words) <= panel.MOST_CATEGORIES
    if arms_named:
        axes.set_xlabel("")
        words = [table.label(word) for word in words]
    if words:
        panel.categories(axes, words)
    legend = [] if arms_named or len(curves.every) == 1 else named(curves)
    return panel.finish(figure, 170, legend, curves)


def key_of(settings: Callable[[Point], Data], point: Point) -> Key:
    """Return these settings of a point as hashable cells."""
    return tuple((key, plain(value)) for key, value in settings(point).items())


def places(
    curves: panel.Curves, x: str
) -> tuple[Callable[[Point], float | None], list[str]]:
    """Return a function from points to x-positions, and the labels of positions 0, 1, ...

    There are labels only if `x` is not numeric.
    """
    every = [point for curve in curves.every for point in curve.points]
    if all(point.at(x) is not None for point in every):
        return (lambda point: point.at(x)), []

    def word(point: Point) -> str:
        value = point.cells.get(x)
        return "null" if value is None else str(value)

    words = list(dict.fromkeys(map(word, every)))
    return (lambda point: float(words.index(word(point)))), words


def named(curves: panel.Curves) -> list[layout.Entry]:
    """Return a line of a legend for each curve, with its arm (if there are several) and settings.

    For more than MOST_ENTRIES curves, return a line for each arm.
    """
    several = len({curve.arm for curve in curves.every}) > 1
    legend = []
    for curve in curves.every:
        values = [f"{label(key)} {'null' if v is None else v}" for key, v in curve.key]
        arm = curves.table.label(curve.arm) if several else ""
        parts = [arm, ", ".join(values)]
        legend.append(panel.entry([curve], ": ".join(filter(None, parts))))

    return legend if len(legend) <= MOST_ENTRIES else panel.legend_of(curves)
