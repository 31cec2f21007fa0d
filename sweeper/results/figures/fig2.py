"""Figure 2: every metric of the fine-tuned models over the parameters of their pre-training.

Each metric has a panel (in the paper SQuAD F1, SQuAD exact match, MNLI accuracy) and each arm a
curve. Marks at the right edge are two baselines: the majority class, and a bag of words.
"""

from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeper.results import panel
from sweeper.results.points import BASELINES, guides, measures, near, seed_spread
from sweeper.results.table import Table

X = "params_total"
_PANEL_PT = 150.0
_MOST_PANELS = 3
_AT_THE_EDGE: dict[str, Any] = {
    "color": panel.FAINT_INK,
    "marker": "<",
    "markeredgewidth": 0.8,
    "linestyle": "none",
    "clip_on": False,
    "zorder": 1,
}
# Hollow and large, or small and filled: both are seen where they reach the same.
_BASELINE_LOOKS: dict[str, dict[str, Any]] = {
    BASELINES["majority"]: {
        **_AT_THE_EDGE,
        "markersize": 7.0,
        "markerfacecolor": "white",
    },
    BASELINES["bag_of_words"]: {**_AT_THE_EDGE, "markersize": 3.5},
}


def draw(table: Table) -> Figure:
    """Draw any table; without fine-tuning, its one metric."""
    looks = panel.looks_of(table.experiment["arms"])
    shown = measures(table)
    found = {measure: measure.points(table) for measure in shown[:_MOST_PANELS]}
    spreads = [seed_spread(points) for points in found.values()]
    everything = [point for points in found.values() for point in points]
    notes = panel.notes_on(table, everything, *spreads)
    if len(found) < len(shown):
        notes.append(f"The first {len(found)} of {len(shown)} metrics.")
    figure = Figure(figsize=(panel.DOUBLE_COLUMN, panel.DOUBLE_COLUMN))
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    drawn: set[str] = set()
    lines = guides(table)
    for axes, (measure, points), spread, letter in zip(
        panels, found.items(), spreads, "abc", strict=False
    ):
        curves = [
            (look, panel.marks([p for p in points if p.arm == arm], X, spread))
            for arm, look in looks.items()
        ]
        every = [mark for _, curve in curves for mark in curve]
        reached = measure.baselines(table).items()
        baselines = {
            words: value for words, value in reached if words in _BASELINE_LOOKS
        }
        within = (
            near(baselines, [v for mark in every for v in mark.seeds]) if every else {}
        )
        scaled = [
            *every,
            *(replace(every[0], ends=None, seeds=(it,)) for it in within.values()),
        ]
        panel.fill(
            axes, X, measure.words, curves, letter=letter, scaled=scaled, guides=lines
        )
        edge = axes.get_yaxis_transform()
        for words, value in within.items():
            axes.plot([1.03], [value], transform=edge, **_BASELINE_LOOKS[words])
        drawn |= within.keys()
        far = [
            f"{words} {value:.1f}"
            for words, value in baselines.items()
            if words not in within
        ]
        if every and far:
            notes.append(f"Outside panel ({letter}): {', '.join(far)}.")
    marked: list[panel.Entry] = [
        ((Line2D([], [], **look),), words)
        for words, look in _BASELINE_LOOKS.items()
        if words in drawn
    ]
    panel.lay_out(
        figure, _PANEL_PT, table, [*panel.legend_of(table, looks), *marked], notes
    )
    return figure
