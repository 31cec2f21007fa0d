"""Trained runs re-parametrised: their metric over the shared key/query size, a panel for each.

A panel is an arm that starts from another: that one's mean is the dashed line. Above stands the
share of its attention parameters that is saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from sweeper.results.figures.layout.layout import Entry, lay_out, notes_on
from sweeper.results.figures.layout.panel import Look, prepare, scale
from sweeper.results.figures.layout.series import Mark, marks
from sweeper.results.figures.layout.style import (
    DOUBLE_COLUMN,
    FAINT_INK,
    PALETTE,
    RC,
    SMALL_PT,
    blank,
    plain,
)
from sweeper.results.statistics.estimates import Spread
from sweeper.results.table.measures import Measure
from sweeper.results.table.points import Point, metric_of, points, seed_spread
from sweeper.results.table.table import Table

X = "model.attention.shared_size"
_PANEL_PT, _WIDTH_PT, _HEIGHT_PT = 165.0, 390.0, 105.0
_LOOK = Look(PALETTE[2], marker="^")
_BEFORE: dict[str, Any] = {"color": FAINT_INK, "linewidth": 0.9, "linestyle": (0, (4, 2))}


def draw(table: Table) -> Figure:
    """The figure, from a table with arms that start from others and vary the shared size."""
    arms = {
        arm: about["parent"]
        for arm, about in table.experiment["arms"].items()
        if about.get("parent") and any(p.at(X) for p in points(table, metric_of(table, arm), [arm]))
    }
    every = [point for arm in table.experiment["arms"] for point in _points(table, arm)]
    spreads = {arm: _spread(table, arm, parent) for arm, parent in arms.items()}
    notes = notes_on(table, every, *spreads.values())
    with rc_context(RC):
        figure = blank(DOUBLE_COLUMN)
        panels = figure.subplots(1, max(1, len(arms)), squeeze=False)[0]
        for axes, letter, (arm, parent) in zip(panels, "abcdef", arms.items(), strict=False):
            measure = Measure("", metric_of(table, arm))
            prepare(axes, X, "", letter=letter)
            axes.set_title(plain(table.label(parent), 16), pad=14)
            axes.set_ylabel(plain(measure.words))
            before = marks(_points(table, parent), lambda _: 0.0, spreads[arm])
            curve = marks(_points(table, arm), lambda point: point.at(X), spreads[arm])
            _fill(axes, curve, before, _WIDTH_PT / len(arms))
            notes += _baselines(table, arm, table.label(parent))
        if not arms:
            scale(panels[0], [], [], room=(_WIDTH_PT, _HEIGHT_PT))
        lay_out(
            figure,
            _PANEL_PT,
            title=str(table.experiment.get("title") or table.name),
            legend=[
                Entry((_LOOK.handle(),), "re-parametrised; above: attention parameters saved"),
                Entry((Line2D([], [], **_BEFORE),), "as trained"),
            ],
            notes=notes,
        )
    return figure


def _points(table: Table, arm: str) -> list[Point]:
    found = Measure("", metric_of(table, arm)).points(table)
    return [point for point in found if point.arm == arm]


def _spread(table: Table, *arms: str) -> Spread | None:
    return seed_spread([point for arm in arms for point in _points(table, arm)])


def _fill(axes: Axes, curve: Sequence[Mark], before: Sequence[Mark], width: float) -> None:
    scale(axes, curve, [*curve, *before], room=(width, _HEIGHT_PT), own=True)
    _LOOK.draw(axes, curve)
    for mark in before:
        axes.axhline(mark.mean, zorder=2, **_BEFORE)
    saved = [(mark.x, mark.point.at("params_attention_saved")) for mark in curve]
    known = [(x, f"{share:.0%}") for x, share in saved if share is not None]
    if known:
        above = axes.secondary_xaxis("top")
        above.set_xticks(*zip(*known, strict=True), fontsize=SMALL_PT, color=FAINT_INK)
        above.xaxis.set_minor_locator(NullLocator())
        above.spines["top"].set_visible(False)
        above.tick_params(length=0, pad=0)


def _baselines(table: Table, arm: str, words: str) -> list[str]:
    """What is reached without reading, where the rows carry it."""
    baselines = Measure("", metric_of(table, arm)).baselines(table)
    told = ", ".join(f"{name} {value:.1f}" for name, value in baselines.items())
    return [f"{plain(words)} of baselines: {told}."] if told else []
