"""The default figure: the metric over the experiment's `x`, a curve for each arm and setting.

For a grid that was typed by hand, the first typed key is the x-axis, and each combination of the
other keys has a curve.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeper.results import panel
from sweeper.results.collect import plain
from sweeper.results.points import (
    Point,
    bent,
    guides,
    points,
    seed_spread,
    settings_apart,
    trigram_curve,
)
from sweeper.results.table import Table, label

_PANEL_PT = 170.0
_LABEL_LETTERS = 16  # longer names go to the legend
MOST_ENTRIES = 12


def series_of(every: Sequence[Point], x: str) -> list[panel.Series]:
    """Return a series for each arm and each setting of its keys except those along the curve."""
    return series_by(settings_apart(every, x), every)


def series_by(
    settings: Callable[[Point], Mapping[str, Any]], every: Sequence[Point]
) -> list[panel.Series]:
    """Return a series for each arm and each of its settings."""

    def key(
        point: Point,
    ) -> tuple[tuple[str, Any], ...]:  # as cells: a list has no hash
        return tuple((key, plain(value)) for key, value in settings(point).items())

    return panel.split(every, by=key)


def places(
    series: Sequence[panel.Series], x: str
) -> tuple[Callable[[Point], float | None], list[str]]:
    """Return each point's place on the x-axis; words for places 0, 1, ... if `x` is not numeric."""
    every = [point for one in series for point in one.points]
    if all(point.at(x) is not None for point in every):
        return (lambda point: point.at(x)), []

    def word(point: Point) -> str:
        value = point.cells.get(x)
        return "null" if value is None else str(value)

    words = list(dict.fromkeys(map(word, every)))
    return (lambda point: float(words.index(word(point)))), words


def names_of(table: Table, series: Sequence[panel.Series]) -> list[str]:
    """Return for each curve its arm, if there are several, and the settings that tell it apart."""
    several = len({one.arm for one in series}) > 1
    names = []
    for one in series:
        assert isinstance(one.key, tuple)
        values = [f"{label(key)} {'null' if v is None else v}" for key, v in one.key]
        parts = [table.label(one.arm) * several, ", ".join(values)]
        names.append(panel.plain(": ".join(filter(None, parts)), 96))
    return names


def legend_of(names: Sequence[str], looks: Sequence[panel.Look]) -> list[panel.Entry]:
    """Return an entry for each curve; for the last of many, one that says how many there are."""
    pairs = zip(names, looks, strict=True)
    legend: list[panel.Entry] = [((look.handle(),), name) for name, look in pairs]
    if len(legend) > MOST_ENTRIES:
        hidden = len(legend) - MOST_ENTRIES + 1
        nothing = Line2D([], [], linestyle="none")
        legend[MOST_ENTRIES - 1 :] = [((nothing,), f"and {hidden} more")]
    return legend


def draw(table: Table) -> Figure:
    x = str(table.experiment.get("x") or "params_total")
    everything, back = bent(points(table, table.metric), table.metric)
    spread = seed_spread(everything)
    series = series_of(everything, x)
    known = panel.curve_looks(
        table.experiment["arms"], [(one.arm, one.key) for one in series]
    )
    joined = [(known[one.arm, one.key], len(one.points) > 1) for one in series]
    looks = [replace(look, line=look.line and several) for look, several in joined]
    names = names_of(table, series)
    at, words = places(series, x)
    curves = [
        (look, panel.marks(one.points, at, spread, back))
        for look, one in zip(looks, series, strict=True)
    ]
    figure = Figure(figsize=(panel.COLUMN, panel.COLUMN))
    axes = figure.add_subplot()
    own = x.startswith("model.")
    every = [mark for _, curve in curves for mark in curve]
    trigram = trigram_curve(table, x) if every else []
    beside = [
        replace(every[0], x=place, ends=None, seeds=(value,))
        for place, value in trigram
    ]
    lines = guides(table)
    panel.fill(
        axes, x, table.metric, curves, own=own, guides=lines, scaled=[*every, *beside]
    )
    if trigram:
        panel.guide_curve(axes, "trigram", trigram)
    named = (
        x == "arm" and len(words) <= panel.MOST_CATEGORIES
    )  # a legend would repeat the axis
    if words:
        panel.categories(
            axes, [table.label(word) for word in words] if named else words
        )
    if named:
        axes.set_xlabel("")
    ends = [
        (name, look.colour, curve[-1])
        for name, (look, curve) in zip(names, curves, strict=True)
        if curve
    ]
    short = len(series) > 1 and all(len(name) <= _LABEL_LETTERS for name in names)
    direct = short and not named and panel.label_ends(axes, ends)
    legend = [] if direct or named or len(series) == 1 else legend_of(names, looks)
    panel.lay_out(
        figure, _PANEL_PT, table, legend, panel.notes_on(table, everything, spread)
    )
    return figure
