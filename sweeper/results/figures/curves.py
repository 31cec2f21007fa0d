"""The default figure: the metric over the experiment's key `x`. Each arm and setting has a curve.

For a grid from the command line, the first key of the grid is the x-axis, and each combination of
the other keys has a curve.
"""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.collect import plain
from sweeper.results.points import Point, judged_points, trigram_curve
from sweeper.results.table import Table, label

MOST_ENTRIES = 12  # for more curves, the legend lists only the arms

Key = tuple[tuple[str, Any], ...]
"""The settings that distinguish a curve from the other curves of its arm."""


def draw(table: Table) -> Figure:
    """Draw a table of any experiment, with one curve for each arm and setting."""
    x = str(table.experiment.get("x") or "params_total")
    every = judged_points(table, table.metric)
    curves = panel.Curves(table, every, by=curve_keys(every, x))
    at, words = places(curves, x)

    figure, [axes] = layout.panels(1)
    marks = curves.draw(axes, x, at=at)
    trigram = trigram_curve(table, x)
    if trigram and any(marks):
        axes.plot(*zip(*trigram, strict=True), zorder=1, **panel.GUIDE)
        panel.guide_words(axes, "trigram", trigram[-1])

    # If the x-axis names the arms, a legend would only repeat their names.
    arms_named = x == "arm" and len(words) <= panel.MOST_CATEGORIES
    if arms_named:
        axes.set_xlabel("")
        words = [table.label(word) for word in words]
    if words:
        panel.categories(axes, words)
    legend = [] if arms_named or len(curves.every) == 1 else named(curves)
    return panel.finish(figure, 170, legend, curves)


def curve_keys(given: Sequence[Point], x: str) -> Callable[[Point], Key]:
    """Return a function that maps a point to the key of its curve (see `Key`).

    The key has the point's settings except `x` and the keys that always change together with `x`.
    If an arm does not vary `x`, the first key that the arm varies takes the place of `x`.
    """
    along: dict[str, set[str]] = {}
    for arm in {point.arm for point in given}:
        every = [point.settings for point in given if point.arm == arm]
        first = x if x in every[0] else next(iter(every[0]), "")
        along[arm] = {first}
        for key in every[0]:
            pairs = {(str(own.get(first)), str(own.get(key))) for own in every}
            one, other = (len(set(values)) for values in zip(*pairs, strict=True))
            if len(pairs) == one == other > 1:
                along[arm].add(key)

    def key_of(point: Point) -> Key:
        apart = point.settings.keys() - along[point.arm]
        return tuple((k, plain(v)) for k, v in point.settings.items() if k in apart)

    return key_of


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
        value = point.settings.get(x, point.cells.get(x))
        return "null" if value is None else str(value)

    words = list(dict.fromkeys(map(word, every)))
    return (lambda point: float(words.index(word(point)))), words


def named(curves: panel.Curves) -> list[layout.Entry]:
    """Return an entry of a legend for each curve, with its settings.

    If there are more than MOST_ENTRIES curves, return one entry for each arm.
    """

    def settings(key: Key) -> str:
        return ", ".join(f"{label(k)} {'null' if v is None else v}" for k, v in key)

    legend = panel.by_curve(curves, settings)
    return legend if len(legend) <= MOST_ENTRIES else panel.legend_of(curves)
