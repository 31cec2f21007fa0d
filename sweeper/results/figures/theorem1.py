"""Theorem 1, measured: the error of a fitted context over head size / n, a panel for each mask.

Beside each measured knee stand the n of the theorem, n - 1, and n / 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeper.results.claims.evidence.head_size_curve import HeadSizeCurve, head_size_curves
from sweeper.results.figures.layout.labels import label_points
from sweeper.results.figures.layout.layout import Entry, lay_out, notes_on
from sweeper.results.figures.layout.panel import Look, prepare, scale
from sweeper.results.figures.layout.series import Mark
from sweeper.results.figures.layout.style import (
    DOUBLE_COLUMN,
    FAINT_INK,
    INK,
    MARKERS,
    RC,
    SMALL_PT,
    blank,
    plain,
    ramp,
)
from sweeper.results.statistics.estimates import interval
from sweeper.results.table.points import points
from sweeper.results.table.table import Table

_PANEL_PT, _ROOM = 180.0, (190.0, 140.0)
_TICKS = (0, 0.25, 0.5, 0.75, 1)
_GUIDES = {1.0: "n", 0.5: "n / 2"}
_RING: dict[str, Any] = {
    "marker": "o",
    "markersize": 9.0,
    "markerfacecolor": "none",
    "markeredgewidth": 1.0,
}
_ABOVE: dict[str, Any] = {
    "marker": "v",
    "markersize": 5.0,
    "markeredgewidth": 0.0,
    "linestyle": "none",
}


def draw(table: Table) -> Figure:
    """The figure, from a table whose points differ in sequence length and head size."""
    every = points(table, table.metric)
    found = head_size_curves(every)
    lengths = sorted({curve.length for curve in found})
    shades = dict(zip(lengths, ramp(max(1, len(lengths))), strict=False))
    looks = {
        length: Look(shades[length], marker=MARKERS[index % len(MARKERS)])
        for index, length in enumerate(lengths)
    }
    arms = list(table.experiment["arms"])
    with rc_context(RC):
        figure = blank(DOUBLE_COLUMN)
        panels = figure.subplots(1, len(arms), squeeze=False)[0]
        marks = {(one.arm, one.length): marks_of(one) for one in found}
        everything = [mark for curve in marks.values() for mark in curve]
        for letter, axes, arm in zip("abcdef", panels, arms, strict=False):
            prepare(axes, "head size / n", table.metric, letter=letter)
            axes.set_title(plain(table.label(arm), 24), pad=14)
            scale(axes, everything, everything, room=_ROOM)
            if everything:
                axes.set(xscale="linear", xlim=(0, 1.06), xticks=_TICKS)
            own = [one for one in found if one.arm == arm]
            for one in own:
                looks[one.length].draw(axes, marks[arm, one.length])
            _mark(axes, own, looks)
        spread = found[0].spread if found else None
        lay_out(
            figure,
            _PANEL_PT,
            title=str(table.experiment.get("title") or table.name),
            legend=_legend(looks),
            notes=notes_on(table, every, spread),
        )
        for axes, arm in zip(panels, arms, strict=False):
            own = [one for one in found if one.arm == arm]
            drawn = [(looks[one.length], marks[arm, one.length]) for one in own]
            label_points(axes, _knees(own, looks), drawn)
    return figure


def marks_of(curve: HeadSizeCurve) -> list[Mark]:
    """The points of a curve over head size / n, as errors; intervals are of the logarithms."""
    found = []
    for size, point in curve.points.items():
        known = curve.estimate(size)
        ends = interval(known)
        found.append(
            Mark(
                size / curve.length,
                10**known.mean,
                ends and (10 ** ends[0], 10 ** ends[1]),
                tuple(10**value for value in point.values.values()),
                point,
            )
        )
    return found


def _mark(axes: Axes, own: Sequence[HeadSizeCurve], looks: dict[int, Look]) -> None:
    """n and n / 2 as lines, n - 1 as a triangle above, the measured knee as a ring."""
    if not own:
        return
    above = axes.get_xaxis_transform()
    for place, words in _GUIDES.items():
        axes.axvline(place, color=FAINT_INK, linewidth=0.7, linestyle=(0, (4, 3)), zorder=1)
        axes.text(
            place, 1.02, words, transform=above, ha="center", fontsize=SMALL_PT, color=FAINT_INK
        )
    for curve in own:
        colour, n = looks[curve.length].colour, curve.length
        axes.plot([(n - 1) / n], [1.0], transform=above, color=colour, clip_on=False, **_ABOVE)
        knee = _knee(curve)
        if knee is not None:
            axes.plot([knee.x], [knee.mean], color=INK, zorder=5, **_RING)


def _knee(curve: HeadSizeCurve) -> Mark | None:
    size = curve.knee
    marks = marks_of(curve)
    return None if size is None else marks[list(curve.points).index(size)]


def _knees(own: Sequence[HeadSizeCurve], looks: dict[int, Look]) -> list[tuple[str, str, Mark]]:
    """The head size of each measured knee, in words."""
    return [
        (str(curve.knee), looks[curve.length].colour, mark)
        for curve in own
        if (mark := _knee(curve)) is not None
    ]


def _legend(looks: dict[int, Look]) -> list[Entry]:
    if not looks:
        return []
    entries = [Entry((look.handle(),), f"n = {length}") for length, look in looks.items()]
    ring = Line2D([], [], color=INK, linestyle="none", **_RING)
    triangle = Line2D([], [], color=FAINT_INK, **_ABOVE)
    return [*entries, Entry((ring,), "measured knee, its head size"), Entry((triangle,), "n - 1")]
