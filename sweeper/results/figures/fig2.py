"""Figure 2: every metric of the fine-tuned models over the parameters of their pre-training.

A panel a metric (in the paper SQuAD F1, SQuAD exact match, MNLI accuracy), a curve an arm, and at
the right edge what baselines reach that do not read: the majority class, and a bag of words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import methodcaller
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeper.results.figures.layout.panel import (
    DOUBLE_COLUMN,
    FAINT_INK,
    RC,
    Entry,
    Mark,
    fill,
    lay_out,
    legend_of,
    looks_of,
    marks,
    notes_on,
)
from sweeper.results.points import BASELINES, measures, seed_spread
from sweeper.results.table import Table

X = "params_total"
_PANEL_PT = 150.0
_REACH = 3.0  # a baseline further below than this many times the height of the curves is not drawn
_MOST_PANELS = 3
_AT_THE_EDGE: dict[str, Any] = {
    "color": FAINT_INK,
    "marker": "<",
    "linestyle": "none",
    "clip_on": False,
    "zorder": 1,
}
# Hollow and large, or small and filled: both are seen where they reach the same.
_BASELINE_LOOKS: dict[str, dict[str, Any]] = {
    words: {"markersize": size, "markerfacecolor": face, "markeredgewidth": 0.8, **_AT_THE_EDGE}
    for words, size, face in zip(BASELINES.values(), (7.0, 3.5), ("white", FAINT_INK), strict=True)
}


@rc_context(RC)
def draw(table: Table) -> Figure:
    """The figure, from any table: of one that fine-tunes nothing, its metric alone."""
    looks = looks_of(table.experiment["arms"])
    found = {measure: measure.points(table) for measure in measures(table)[:_MOST_PANELS]}
    spreads = [seed_spread(points) for points in found.values()]
    notes = notes_on(table, [point for points in found.values() for point in points], *spreads)
    figure = Figure(figsize=(DOUBLE_COLUMN, DOUBLE_COLUMN))
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    drawn: set[str] = set()
    for axes, (measure, points), spread, letter in zip(
        panels, found.items(), spreads, "abc", strict=False
    ):
        curves = [
            (look, marks([p for p in points if p.arm == arm], methodcaller("at", X), spread))
            for arm, look in looks.items()
        ]
        every = [mark for _, curve in curves for mark in curve]
        near, far = _near(every, measure.baselines(table))
        scaled = [*every, *(replace(every[0], ends=None, seeds=(it,)) for it in near.values())]
        fill(axes, X, measure.words, curves, letter=letter, scaled=scaled)
        for words, value in near.items():
            edge = axes.get_yaxis_transform()
            axes.plot([1.03], [value], transform=edge, **_BASELINE_LOOKS[words])
        drawn |= near.keys()
        notes += [f"Outside panel ({letter}): {', '.join(far)}."] if far else []
    baselines: list[Entry] = [
        ((Line2D([], [], **look),), words)
        for words, look in _BASELINE_LOOKS.items()
        if words in drawn
    ]
    lay_out(figure, _PANEL_PT, table, [*legend_of(table, looks), *baselines], notes)
    return figure


def _near(
    marks: Sequence[Mark], baselines: Mapping[str, float]
) -> tuple[dict[str, float], list[str]]:
    """The baselines that can be drawn without flattening the curves; words on the others."""
    heights = [value for mark in marks for value in mark.seeds]
    if not heights:
        return {}, []
    low, high = min(heights), max(heights)
    reach = _REACH * ((high - low) or abs(high) * 0.1)
    near = {
        words: value for words, value in baselines.items() if low - reach <= value <= high + reach
    }
    return near, [f"{name} {value:.1f}" for name, value in baselines.items() if name not in near]
