"""Figure 3: (a) each arm over its heads, (b) head sizes at several numbers of heads."""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller

from matplotlib import rc_context
from matplotlib.figure import Figure

from sweeper.results.figures.layout.layout import Entry, lay_out, notes_on
from sweeper.results.figures.layout.panel import Look, prepare, scale
from sweeper.results.figures.layout.series import Mark, Series, marks, split
from sweeper.results.figures.layout.style import (
    DOUBLE_COLUMN,
    MARKERS,
    PALETTE,
    RC,
    blank,
    plain,
    ramp,
)
from sweeper.results.table.points import Point, points, seed_spread
from sweeper.results.table.table import Table

HEADS, SIZE = "model.heads", "model.head_size"
_PANEL_PT, _ROOM = 170.0, (190.0, 130.0)


def draw(table: Table, *, sizes: str = "sizes") -> Figure:
    """The figure, from a table with these arms; whatever other arms it has are in panel (a)."""
    everything = points(table, table.metric)
    spread = seed_spread(everything)
    left = split([p for p in everything if p.arm != sizes], by=lambda point: None)
    right = split([p for p in everything if p.arm == sizes], by=methodcaller("at", HEADS))
    arms = [arm for arm in table.experiment["arms"] if arm != sizes]
    looks = {arm: Look(PALETTE[i % len(PALETTE)], marker=MARKERS[i]) for i, arm in enumerate(arms)}
    shades = ramp(max(1, len(right)))
    drawn = {
        HEADS: [
            (looks[one.arm], marks(one.points, methodcaller("at", HEADS), spread)) for one in left
        ],
        SIZE: [
            (Look(shade, marker="D"), marks(one.points, methodcaller("at", SIZE), spread))
            for shade, one in zip(shades, right, strict=False)
        ],
    }
    with rc_context(RC):
        figure = blank(DOUBLE_COLUMN)
        panels = figure.subplots(1, 2)
        for axes, (column, curves), letter in zip(panels, drawn.items(), "ab", strict=True):
            prepare(axes, column, table.metric, letter=letter)
            own = [mark for _, curve in curves for mark in curve]
            scale(axes, own, own, room=_ROOM, own=True)
            for look, curve in curves:
                look.draw(axes, curve)
        lay_out(
            figure,
            _PANEL_PT,
            title=str(table.experiment.get("title") or table.name),
            legend=[
                *(Entry((look.handle(),), plain(table.label(arm))) for arm, look in looks.items()),
                *_by_heads(drawn[SIZE], right),
            ],
            notes=notes_on(table, everything, spread),
        )
    return figure


def _by_heads(curves: Sequence[tuple[Look, list[Mark]]], series: Sequence[Series]) -> list[Entry]:
    return [
        Entry((look.handle(),), f"(b) {_heads(one.points[0])} heads")
        for (look, _), one in zip(curves, series, strict=True)
    ]


def _heads(point: Point) -> str:
    heads = point.at(HEADS)
    return "" if heads is None else f"{heads:.0f}"
