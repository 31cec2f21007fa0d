"""Figure 2: every metric of the fine-tuned models over the parameters of their pre-training.

A panel a metric (in the paper SQuAD F1, SQuAD exact match, MNLI accuracy), a curve an arm, and as
thin lines what baselines reach that do not read: the majority class, and a bag of words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import methodcaller

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sweeper.results.figures.layout.layout import Entry, lay_out, notes_on
from sweeper.results.figures.layout.panel import Look, prepare, scale
from sweeper.results.figures.layout.series import Mark, marks
from sweeper.results.figures.layout.style import (
    DOUBLE_COLUMN,
    FAINT_INK,
    MARKERS,
    PALETTE,
    RC,
    SMALL_PT,
    blank,
    plain,
)
from sweeper.results.table.measures import measures
from sweeper.results.table.points import Point, seed_spread
from sweeper.results.table.table import Table

X = "params_total"
_PANEL_PT, _WIDTH_PT, _HEIGHT_PT = 150.0, 390.0, 112.0
_REACH = 3.0  # a baseline further below than this many times the height of the curves is not drawn
_LABEL_ROOM = 0.12  # of the height of what is drawn, below or above a baseline for its words
_MOST_PANELS = 3

Curves = Sequence[tuple[Look, list[Mark]]]


def draw(table: Table) -> Figure:
    """The figure, from any table: of one that fine-tunes nothing, its metric alone."""
    shown = measures(table)[:_MOST_PANELS]
    arms = list(table.experiment["arms"])
    looks = {
        arm: Look(PALETTE[place % len(PALETTE)], marker=MARKERS[place % len(MARKERS)])
        for place, arm in enumerate(arms)
    }
    found = {measure: measure.points(table) for measure in shown}
    spreads = [seed_spread(points) for points in found.values()]
    notes = notes_on(table, [point for points in found.values() for point in points], *spreads)
    with rc_context(RC):
        figure = blank(DOUBLE_COLUMN)
        panels = figure.subplots(1, len(shown), squeeze=False)[0]
        for axes, (measure, points), spread, letter in zip(
            panels, found.items(), spreads, "abc", strict=False
        ):
            prepare(axes, X, "", letter=letter)
            axes.set_ylabel(plain(measure.words))
            curves = [
                (look, marks(_of(points, arm), methodcaller("at", X), spread))
                for arm, look in looks.items()
            ]
            far = _fill(axes, curves, measure.baselines(table), len(shown))
            notes += [f"Outside panel ({letter}): {', '.join(far)}."] if far else []
        lay_out(
            figure,
            _PANEL_PT,
            title=str(table.experiment.get("title") or table.name),
            legend=[
                Entry((look.handle(),), plain(table.label(arm))) for arm, look in looks.items()
            ],
            notes=notes,
        )
    return figure


def _of(points: Sequence[Point], arm: str) -> list[Point]:
    return [point for point in points if point.arm == arm]


def _fill(axes: Axes, curves: Curves, baselines: Mapping[str, float], panels: int) -> list[str]:
    """Draws a panel; returns words for the baselines too far off to be in it."""
    every = [mark for _, curve in curves for mark in curve]
    near, far = _near(every, baselines)
    scale(axes, every, [*every, *_room(every, near)], room=(_WIDTH_PT / panels, _HEIGHT_PT))
    for look, curve in curves:
        look.draw(axes, curve)
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
    return far


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
    far = [f"{words} {value:.1f}" for words, value in baselines.items() if words not in near]
    return near, far


def _room(marks: Sequence[Mark], baselines: Mapping[str, float]) -> list[Mark]:
    """Marks that are not drawn, where the lowest baseline's words end below it, others' above."""
    if not baselines:
        return []
    heights = [*baselines.values(), *(value for mark in marks for value in mark.seeds)]
    words = _LABEL_ROOM * (max(heights) - min(heights))
    first, *others = baselines.values()
    ends = [first - words, *(value + words for value in others)]
    return [Mark(marks[0].x, end, None, (end,), marks[0].point) for end in ends]
