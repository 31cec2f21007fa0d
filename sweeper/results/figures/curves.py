"""The default figure: the metric over the experiment's key `x`, with curves for each arm.

An arm has a curve for every combination of its other swept keys. In a grid from the command line,
the first swept key is the x-axis.
"""

import textwrap
from collections.abc import Callable, Sequence
from operator import methodcaller

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.points import Point, judged_points, trigram_curve
from sweeper.results.table import Table, label

MOST_ENTRIES = 12  # if there are more curves, the legend lists only the arms
MOST_CATEGORIES = 8  # if an x-axis of words has more positions, they have no labels


def draw(table: Table) -> Figure:
    """Draw the table of any experiment. See the docstring of this module."""
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

    legend = panel.legend_by_curve(curves, str)
    if len(legend) > MOST_ENTRIES:
        legend = panel.legend_of(curves)
    # If the x-axis names the arms, draw no legend, because it would only repeat their names.
    arms_named = x == "arm" and len(words) <= MOST_CATEGORIES
    if arms_named:
        axes.set_xlabel("")
        words = [table.label(arm) for arm in words]
    if arms_named or len(curves.every) == 1:
        legend = []
    if words:
        _categories(axes, words)
    return panel.finish(figure, 170, legend, curves)


def curve_keys(given: Sequence[Point], x: str) -> Callable[[Point], str]:
    """Return a function that maps a point to the key of its curve, such as "heads 8, layers 2".

    The key consists of the point's settings, without `x` and without settings that always change
    together with `x`. If an arm does not vary `x`, the first setting that it varies takes the place
    of `x`.
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

    def key_of(point: Point) -> str:
        return ", ".join(
            f"{label(key)} {_typed(value)}"
            for key, value in point.settings.items()
            if key not in along[point.arm]
        )

    return key_of


def places(
    curves: panel.Curves, x: str
) -> tuple[Callable[[Point], float | None], list[str]]:
    """Find the positions of points on the x-axis.

    If the key `x` is a number for every point, the number is the position. Otherwise, the values of
    `x` get the positions 0, 1, ...

    Returns:
        A function that maps a point to its position, and the labels of the positions 0, 1, ... The
        list of labels is empty if positions are numbers.
    """
    every = [point for curve in curves.every for point in curve.points]
    if all(point.at(x) is not None for point in every):
        return methodcaller("at", x), []

    def word(point: Point) -> str:
        return _typed(point.settings.get(x, point.cells.get(x)))

    words = list(dict.fromkeys(map(word, every)))
    return (lambda point: words.index(word(point))), words


def _typed(value: object) -> str:
    """Return a value as text, as users type it: None becomes "null"."""
    return "null" if value is None else str(value)


def _categories(axes: Axes, words: Sequence[str]) -> None:
    """Label the positions 0, 1, ... of the x-axis, unless there are more than MOST_CATEGORIES.

    Line breaks keep labels from overlapping.
    """
    axes.set_xlim(-0.5, len(words) - 0.5)
    shown = words if len(words) <= MOST_CATEGORIES else []
    lines = [
        textwrap.wrap(
            layout.plain(word), 52 // len(shown), max_lines=4, placeholder="…"
        )
        for word in shown
    ]
    axes.set_xticks(range(len(shown)), ["\n".join(own) for own in lines])
