"""Trained runs re-parametrised: their metric over the shared key/query size, a panel for each.

A panel is an arm that starts from another: that one's mean is the dashed line. Above stands the
share of its attention parameters that is saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from sweeper.results.figures.layout.panel import (
    DOUBLE_COLUMN,
    FAINT_INK,
    RC,
    SMALL_PT,
    Mark,
    fill,
    lay_out,
    looks_of,
    marks,
    notes_on,
    plain,
)
from sweeper.results.points import Measure, Point, metric_of, points, seed_spread
from sweeper.results.table import Table

X = "model.attention.shared_size"
_PANEL_PT = 165.0
_BEFORE: dict[str, Any] = {"color": FAINT_INK, "linewidth": 0.9, "linestyle": (0, (4, 2))}


@rc_context(RC)
def draw(table: Table) -> Figure:
    """The figure, from a table with arms that start from others and vary the shared size."""
    arms = {
        arm: about["parent"]
        for arm, about in table.experiment["arms"].items()
        if about.get("parent") and any(p.at(X) for p in points(table, metric_of(table, arm), [arm]))
    }
    found = {arm: _points(table, arm) for arm in table.experiment["arms"]}
    spreads = {arm: seed_spread([*found[arm], *found[parent]]) for arm, parent in arms.items()}
    every = [point for own in found.values() for point in own]
    notes = notes_on(table, every, *spreads.values())
    known = looks_of(table.experiment["arms"])
    looks = [known[arm] for arm in arms]
    figure = Figure(figsize=(DOUBLE_COLUMN, DOUBLE_COLUMN))
    panels = figure.subplots(1, max(1, len(arms)), squeeze=False)[0]
    for axes, letter, look, (arm, parent) in zip(
        panels, "abcdef", looks, arms.items(), strict=False
    ):
        measure, words = Measure("", metric_of(table, arm)), plain(table.label(parent))
        curve = marks(found[arm], lambda point: point.at(X), spreads[arm])
        before = marks(found[parent], lambda _: 0.0, spreads[arm])
        held = [*curve, *(replace(mark, x=curve[0].x) for mark in before)] if curve else []
        fill(axes, X, measure.words, [(look, curve)], letter=letter, own=True, scaled=held)
        axes.set_title(plain(words, 16), pad=14)
        _mark(axes, curve, before)
        told = [f"{name} {value:.1f}" for name, value in measure.baselines(table).items()]
        notes += [f"{words} of baselines: {', '.join(told)}."] if told else []
    if not arms:
        fill(panels[0], X, table.metric, [])
    after = "re-parametrised; above: attention parameters saved"
    legend = [
        *([(tuple(look.handle() for look in looks), after)] if looks else []),
        ((Line2D([], [], **_BEFORE),), "as trained"),
    ]
    lay_out(figure, _PANEL_PT, table, legend, notes)
    return figure


def _points(table: Table, arm: str) -> list[Point]:
    found = Measure("", metric_of(table, arm)).points(table)
    return [point for point in found if point.arm == arm]


def _mark(axes: Axes, curve: Sequence[Mark], before: Sequence[Mark]) -> None:
    """What the metric was before as a line, and what is saved above."""
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
