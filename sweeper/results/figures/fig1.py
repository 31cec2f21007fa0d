"""Figure 1: the standard heuristic against heads of a fixed size, over everything size can mean.

Above, as in the paper: (a) over total parameters, (b) over the embedding size. Below, the same
points over (c) non-embedding parameters, (d) training FLOPs, (e) the width of keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from operator import methodcaller

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sweeper.results.figures.layout.labels import Label, ends_fit, label_ends, label_points
from sweeper.results.figures.layout.layout import Entry, lay_out, notes_on
from sweeper.results.figures.layout.panel import Look, prepare, scale
from sweeper.results.figures.layout.series import Mark, Series, marks, split
from sweeper.results.figures.layout.style import DOUBLE_COLUMN, PALETTE, RC, blank, plain, ramp
from sweeper.results.table.points import Point, points, seed_spread
from sweeper.results.table.table import Table

TOP = ("params_total", "model.embedding_size")
BOTTOM = ("params_non_embedding", "flops_per_token", "width")
_TOP_PT, _BOTTOM_PT = 168.0, 122.0  # height of a row, axis labels included
_TOP_ROOM, _BOTTOM_ROOM = (190.0, 130.0), (115.0, 85.0)  # what is left for a panel
_FIXED, *_OTHERS = PALETTE[1], PALETTE[3], PALETTE[5], PALETTE[6]


def series_of(table: Table, standard: str, fixed: str, matched: str) -> list[Series]:
    """The standard arm as one series for each number of heads, every other arm as one series."""

    def heads(point: Point) -> float | None:
        return point.at("model.heads") if point.arm == standard else None

    found = split(points(table, table.metric), by=heads)
    order = {standard: 0, fixed: 2, matched: 3}
    return sorted(found, key=lambda one: (order.get(one.arm, 1), one.key or 0.0))


def draw(
    table: Table, *, standard: str = "standard", fixed: str = "fixed", matched: str = "matched"
) -> Figure:
    """The figure, from a table with these arms; arms it lacks are left out, others added."""
    series = series_of(table, standard, fixed, matched)
    looks = _looks(series, standard, fixed, matched)
    everything = points(table, table.metric)
    spread = seed_spread(everything)
    drawn = {
        column: [
            (look, marks(one.points, methodcaller("at", column), spread))
            for one, look in zip(series, looks, strict=True)
        ]
        for column in (*TOP, *BOTTOM)
    }
    with rc_context(RC):
        figure = blank(DOUBLE_COLUMN)
        panels = _panels(figure)
        for (column, axes), letter in zip(panels.items(), "abcde", strict=True):
            prepare(axes, column, table.metric, letter=letter)
            _fill(axes, column, drawn[column])
        first, curves = panels[TOP[0]], drawn[TOP[0]]
        ends = _ends(series, curves, standard)
        direct = ends_fit(first, [end for *_, end in ends], _TOP_ROOM[1])
        lay_out(
            figure,
            _TOP_PT + _BOTTOM_PT,
            title=str(table.experiment.get("title") or table.name),
            legend=_legend(table, series, looks, standard, direct),
            notes=notes_on(table, everything, spread),
        )
        if direct:
            label_ends(first, ends)
        label_points(first, _extremes(series, curves, fixed), curves)
    return figure


def _fill(axes: Axes, column: str, curves: Sequence[tuple[Look, list[Mark]]]) -> None:
    every = [mark for _, curve in curves for mark in curve]
    room = _TOP_ROOM if column in TOP else _BOTTOM_ROOM
    scale(axes, every, every, room=room, own=column == TOP[1])
    for look, curve in curves:
        look.draw(axes, curve)
    if column not in (TOP[0], BOTTOM[0]):  # all panels have the same height axis
        axes.set_ylabel("")
        axes.tick_params(labelleft=False)


def _ends(
    series: Sequence[Series], curves: Sequence[tuple[Look, list[Mark]]], standard: str
) -> list[Label]:
    """The number of heads at the right end of each standard curve."""
    return [
        (_heads(curve[-1].point), look.colour, curve[-1])
        for one, (look, curve) in zip(series, curves, strict=True)
        if one.arm == standard and curve
    ]


def _extremes(
    series: Sequence[Series], curves: Sequence[tuple[Look, list[Mark]]], fixed: str
) -> list[Label]:
    """The number of heads at both ends of the fixed curve."""
    return [
        (_heads(mark.point), look.colour, mark)
        for one, (look, curve) in zip(series, curves, strict=True)
        if one.arm == fixed and curve
        for mark in {mark.x: mark for mark in (curve[0], curve[-1])}.values()
    ]


def _panels(figure: Figure) -> dict[str, Axes]:
    """The panels by the column they are over; each row is laid out on its own."""
    rows = figure.add_gridspec(2, 1, height_ratios=(_TOP_PT, _BOTTOM_PT))
    panels = {}
    for row, columns in enumerate((TOP, BOTTOM)):
        places = rows[row].subgridspec(1, len(columns))
        for place, column in enumerate(columns):
            panels[column] = figure.add_subplot(places[place])
    return panels


def _looks(series: Sequence[Series], standard: str, fixed: str, matched: str) -> list[Look]:
    shades = iter(ramp(max(1, sum(one.arm == standard for one in series))))
    others = cycle(_OTHERS)
    looks = []
    for one in series:
        if one.arm == standard:
            looks.append(Look(next(shades)))
        elif one.arm == fixed:
            looks.append(Look(_FIXED, marker="s", above=True))
        elif one.arm == matched:
            looks.append(Look(_FIXED, marker="D", line=False, filled=False, above=True))
        else:
            looks.append(Look(next(others), marker="^"))
    return looks


def _heads(point: Point) -> str:
    heads = point.at("model.heads")
    return "" if heads is None else f"{heads:.0f} heads"


def _legend(
    table: Table, series: Sequence[Series], looks: Sequence[Look], standard: str, direct: bool
) -> list[Entry]:
    """An entry a curve; one for all standard curves where their heads stand beside them."""
    entries = []
    shades = [look for one, look in zip(series, looks, strict=True) if one.arm == standard]
    if direct and shades:
        chosen = list(dict.fromkeys([shades[0], shades[len(shades) // 2], shades[-1]]))
        handles = tuple(look.handle() for look in chosen)
        entries.append(Entry(handles, plain(table.label(standard))))
    for one, look in zip(series, looks, strict=True):
        if one.arm != standard:
            entries.append(Entry((look.handle(),), plain(table.label(one.arm))))
        elif not direct:
            name = f"{plain(table.label(one.arm), 32)}, {_heads(one.points[0])}"
            entries.append(Entry((look.handle(),), name))
    return entries
