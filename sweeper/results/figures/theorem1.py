"""Theorem 1, measured: the error of a fitted context over head size / n, a panel for each mask.

Each measured knee is shown with the theorem's n, with n - 1, and with n / 2.

While heads are too small, the error falls by a small factor from one size to the next. In a head
that is large enough, only the error of gradient descent remains, orders of magnitude lower. So
means and intervals are those of logarithms, and the knee is the first head size whose error is
below a tenth of the error before it. The largest fall is a worse sign: descent is slowest at the
knee.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeper.results import panel
from sweeper.results.points import points, seed_spread
from sweeper.results.table import Table

COLLAPSE = 1.0  # orders of magnitude
LENGTH, HEAD_SIZE = "task.sequence_length", "model.head_size"
_PANEL_PT = 180.0
_ACROSS = "head size / n"
_TICKS = (0, 0.25, 0.5, 0.75, 1)
_GUIDES = {1.0: "n", 0.5: "n / 2"}
_FAINT: dict[str, Any] = {
    "ha": "center",
    "fontsize": panel.SMALL_PT,
    "color": panel.FAINT_INK,
}
_RING: dict[str, Any] = {
    "marker": "o",
    "markersize": 9.0,
    "markerfacecolor": "none",
    "markeredgewidth": 1.0,
}
ABOVE: dict[str, Any] = {
    "marker": "v",
    "markersize": 5.0,
    "markeredgewidth": 0.0,
    "linestyle": "none",
}


def draw(table: Table) -> Figure:
    """Draw a table whose points differ in sequence length and head size."""
    every = points(table, table.metric)
    logs = [
        replace(
            point,
            values={seed: math.log10(v) for seed, v in point.values.items()},
            logs=True,
        )
        for point in every
        if point.values and min(point.values.values()) > 0
    ]
    spread = seed_spread(logs)
    found: dict[tuple[str, int], list[panel.Mark]] = {}
    for mark in panel.marks(logs, HEAD_SIZE, spread, back=lambda log: 10**log):
        n = mark.point.at(LENGTH)
        if n is not None:
            curve = found.setdefault((mark.point.arm, int(n)), [])
            curve.append(replace(mark, x=mark.x / n))
    everything = [mark for curve in found.values() for mark in curve]
    arms = list(table.experiment["arms"])
    lengths = sorted({n for _, n in found})
    looks = panel.curve_looks(arms, product(arms, lengths))
    figure = Figure(figsize=(panel.DOUBLE_COLUMN, panel.DOUBLE_COLUMN))
    panels = figure.subplots(1, len(arms), squeeze=False)[0]
    knees: list[str] = []
    for letter, axes, arm in zip("abcdef", panels, arms, strict=False):
        own = {n: found[arm, n] for n in lengths if (arm, n) in found}
        curves = [(looks[arm, n], curve) for n, curve in own.items()]
        panel.fill(
            axes, _ACROSS, table.metric, curves, letter=letter, scaled=everything
        )
        axes.set_title(panel.plain(table.label(arm), 24), pad=14)
        if everything:
            axes.set(xscale="linear", xlabel=_ACROSS, xlim=(0, 1.06))
            axes.set(xticks=_TICKS, xticklabels=map(str, _TICKS))
        if not own:
            continue
        above = axes.get_xaxis_transform()
        for place, words in _GUIDES.items():
            axes.axvline(place, zorder=1, **panel.GUIDE)
            axes.text(place, 1.02, words, transform=above, **_FAINT)
        for n, curve in own.items():
            colour = looks[arm, n].colour
            axes.plot(
                [(n - 1) / n],
                [1.0],
                transform=above,
                color=colour,
                clip_on=False,
                **ABOVE,
            )
            knee = knee_of(curve)
            if knee is not None:
                axes.plot([knee.x], [knee.mean], color=panel.INK, zorder=5, **_RING)
                knees.append(f"({letter}) {knee.point.at(HEAD_SIZE):.0f} for n = {n}")
    notes = panel.notes_on(table, logs, *[spread] * bool(found))
    if knees:
        notes.insert(0, f"Head sizes of the measured knees: {', '.join(knees)}.")
    legend: list[panel.Entry] = [
        (tuple(looks[arm, n].handle() for arm in arms), f"n = {n}") for n in lengths
    ]
    if looks:
        ring = Line2D([], [], color=panel.INK, linestyle="none", **_RING)
        triangle = Line2D([], [], color=panel.FAINT_INK, **ABOVE)
        legend += [((ring,), "measured knee"), ((triangle,), "n - 1")]
    panel.lay_out(figure, _PANEL_PT, table, legend, notes)
    return figure


def knee_of(curve: Sequence[panel.Mark]) -> panel.Mark | None:
    """Return the first mark whose error is an order of magnitude below that of one size less."""
    for before, mark in pairwise(curve):
        sizes = [one.point.at(HEAD_SIZE) or 0.0 for one in (before, mark)]
        logs = [one.point.mean for one in (before, mark)]
        if sizes[1] - sizes[0] == 1 and logs[0] - logs[1] > COLLAPSE:
            return mark
    return None
