"""Figure 2: every metric of the fine-tuned models over the parameters of their pre-training.

A panel a metric (in the paper SQuAD F1, SQuAD exact match, MNLI accuracy), a curve an arm, and as
thin lines what baselines reach that do not read: the majority class, and a bag of words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import methodcaller

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sweeper.results.figures.layout.layout import lay_out, legend_of, notes_on
from sweeper.results.figures.layout.panel import fill, looks_of
from sweeper.results.figures.layout.series import Mark, marks
from sweeper.results.figures.layout.style import (
    DOUBLE_COLUMN,
    FAINT_INK,
    RC,
    SMALL_PT,
)
from sweeper.results.table.measures import measures
from sweeper.results.table.points import seed_spread
from sweeper.results.table.table import Table

X = "params_total"
_PANEL_PT = 150.0
_REACH = 3.0  # a baseline further below than this many times the height of the curves is not drawn
_LABEL_ROOM = 0.12  # of the height of what is drawn, below or above a baseline for its words
_MOST_PANELS = 3


@rc_context(RC)
def draw(table: Table) -> Figure:
    """The figure, from any table: of one that fine-tunes nothing, its metric alone."""
    looks = looks_of(table.experiment["arms"])
    found = {measure: measure.points(table) for measure in measures(table)[:_MOST_PANELS]}
    spreads = [seed_spread(points) for points in found.values()]
    notes = notes_on(table, [point for points in found.values() for point in points], *spreads)
    figure = Figure(figsize=(DOUBLE_COLUMN, DOUBLE_COLUMN))
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, (measure, points), spread, letter in zip(
        panels, found.items(), spreads, "abc", strict=False
    ):
        curves = [
            (look, marks([p for p in points if p.arm == arm], methodcaller("at", X), spread))
            for arm, look in looks.items()
        ]
        every = [mark for _, curve in curves for mark in curve]
        near, far = _near(every, measure.baselines(table))
        scaled = [*every, *_room(every, near)]
        fill(axes, X, measure.words, curves, letter=letter, scaled=scaled)
        _baselines(axes, near)
        notes += [f"Outside panel ({letter}): {', '.join(far)}."] if far else []
    lay_out(figure, _PANEL_PT, table, legend_of(table, looks), notes)
    return figure


def _baselines(axes: Axes, near: Mapping[str, float]) -> None:
    """A thin line for each; the lowest one's words stand below it, others' above."""
    for place, (words, value) in enumerate(near.items()):
        axes.axhline(value, color=FAINT_INK, linewidth=0.7, linestyle=(0, (4, 2)), zorder=1)
        axes.annotate(
            words,
            (0.02, value),
            xycoords=("axes fraction", "data"),
            xytext=(0, 1.5 if place else -1.5),
            textcoords="offset points",
            va="bottom" if place else "top",
            fontsize=SMALL_PT,
            color=FAINT_INK,
        )


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


def _room(marks: Sequence[Mark], baselines: Mapping[str, float]) -> list[Mark]:
    """Marks that are not drawn, where the lowest baseline's words end below it, others' above."""
    if not baselines:
        return []
    heights = [*baselines.values(), *(value for mark in marks for value in mark.seeds)]
    words = _LABEL_ROOM * (max(heights) - min(heights))
    first, *others = baselines.values()
    ends = [first - words, *(value + words for value in others)]
    return [replace(marks[0], ends=None, seeds=(end,)) for end in ends]
