"""The metric above that of the largest head, over head size: a curve for each arm and length n.

Triangles above the panel, in the colour of each curve, mark the head sizes at which the error in
experiment=theorem1 collapses: n / 2 with a causal mask, and n - 1 without one.
"""

import math
import textwrap
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeper.results import panel
from sweeper.results.figures.theorem1 import ABOVE, HEAD_SIZE, LENGTH
from sweeper.results.points import Point, points, seed_spread
from sweeper.results.table import Table, label

_PANEL_PT = 170.0
_LABEL_LETTERS = 36  # of a line beside the panel
_CAUSAL: dict[str, Any] = {**ABOVE, "clip_on": False}
_BIDIRECTIONAL: dict[str, Any] = {
    **_CAUSAL,
    "markeredgewidth": None,
    "markerfacecolor": "white",
}


def draw(table: Table) -> Figure:
    """Draw a table whose points differ in sequence length and head size."""
    every = points(table, table.metric)
    placed = {
        (point.arm, int(n)) for point in every if (n := point.at(LENGTH)) is not None
    }
    arms = [*table.experiment["arms"]]
    curves: dict[tuple[str, int], list[Point]] = {}
    for arm, n in sorted(placed, key=lambda one: (arms.index(one[0]), one[1])):
        own = [point for point in every if (point.arm, point.at(LENGTH)) == (arm, n)]
        own.sort(key=lambda point: point.at(HEAD_SIZE) or 0.0)
        largest = own[-1]
        curves[arm, n] = [
            replace(
                point,
                values={seed: v - largest.mean for seed, v in point.values.items()},
                bounds=(-math.inf, math.inf),
            )
            for point in own
            if largest.values
        ]
    several = len({arm for arm, _ in curves}) > 1
    names = {
        (arm, n): f"{panel.plain(table.label(arm), 32)}, n = {n}"
        if several
        else f"n = {n}"
        for arm, n in curves
    }
    looks = panel.curve_looks([arm for arm, _ in curves], curves)
    spread = seed_spread(every)
    figure = Figure(figsize=(panel.COLUMN, panel.COLUMN))
    axes = figure.add_subplot()
    drawn = [
        (looks[one], panel.marks(own, HEAD_SIZE, spread)) for one, own in curves.items()
    ]
    panel.fill(axes, HEAD_SIZE, table.metric, drawn, own=True)
    metric, bracket, unit = label(table.metric).partition(" (")
    shown = f"{metric} above that of the largest head{bracket}{unit}"
    axes.set_ylabel("\n".join(textwrap.wrap(shown, _LABEL_LETTERS)))
    if any(own for _, own in drawn):
        above, (low, high) = axes.get_xaxis_transform(), axes.get_xlim()
        for arm, n in curves:
            colour = looks[arm, n].colour
            for place, how, height in (
                (n // 2, _CAUSAL, 1.02),
                (n - 1, _BIDIRECTIONAL, 1.06),
            ):
                if low <= place <= high:
                    axes.plot([place], [height], transform=above, color=colour, **how)
    left_out = [names[one] for one, own in curves.items() if not own]
    without = (
        f"Left out, as the largest head has no finished run: {', '.join(left_out)}."
    )
    notes = [*panel.notes_on(table, every, spread), *[without] * bool(left_out)]
    legend: list[panel.Entry] = [
        ((looks[one].handle(),), name) for one, name in names.items()
    ]
    if names:
        causal = Line2D([], [], color=panel.FAINT_INK, **_CAUSAL)
        bidirectional = Line2D([], [], color=panel.FAINT_INK, **_BIDIRECTIONAL)
        legend += [((causal,), "n / 2"), ((bidirectional,), "n - 1")]
    panel.lay_out(figure, _PANEL_PT, table, legend, notes)
    return figure
