"""Theorem 1, measured: the error of a fitted context over head size / n, a panel for each mask.

Each measured knee is shown with the theorem's n, with n - 1, and with n / 2.

While heads are too small, the error falls by a small factor from one size to the next. In a head
that is large enough, only the error of gradient descent remains, orders of magnitude lower. So
means and intervals are those of logarithms, and the knee is the first head size whose error is
below a tenth of the error before it. The largest fall is a worse sign: descent is slowest at the
knee.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeper.results import panel
from sweeper.results.points import Point, points, seed_spread
from sweeper.results.statistics.estimates import Estimate, Spread, interval, mean
from sweeper.results.table import Table

COLLAPSE = 1.0  # orders of magnitude
LENGTH, HEAD_SIZE = "task.sequence_length", "model.head_size"
_PANEL_PT = 180.0
_ACROSS = "head size / n"
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


@dataclass(frozen=True)
class HeadSizeCurve:
    """The points of one arm and sequence length by head size; their values are log10(error)."""

    arm: str
    length: int
    points: dict[int, Point]
    spread: Spread | None

    def estimate(self, size: int) -> Estimate:
        """Return the mean at a head size, with the spread of all points in orders of magnitude."""
        values = list(self.points[size].values.values())
        return Estimate(mean(values), len(values), self.spread)

    @property
    def knee(self) -> int | None:
        """The first head size at which the error falls by an order of magnitude, or None."""
        for size in self.points:
            before = self.points.get(size - 1)
            if before is not None:
                fall = self.estimate(size - 1).mean - self.estimate(size).mean
                if fall > COLLAPSE:
                    return size
        return None


def head_size_curves(points: Iterable[Point]) -> list[HeadSizeCurve]:
    """The curves of points whose values are errors above 0, the shortest sequence first."""
    logs = [
        replace(point, values={seed: math.log10(value) for seed, value in point.values.items()})
        for point in points
        if point.values and min(point.values.values()) > 0
    ]
    spread = seed_spread(logs)
    found: dict[tuple[str, int], dict[int, Point]] = {}
    for point in logs:
        length, size = point.at(LENGTH), point.at(HEAD_SIZE)
        if length is not None and size is not None:
            found.setdefault((point.arm, int(length)), {})[int(size)] = point
    return [
        HeadSizeCurve(arm, length, dict(sorted(by_size.items())), spread)
        for (arm, length), by_size in sorted(found.items(), key=lambda item: item[0][1])
    ]


@rc_context(panel.RC)
def draw(table: Table) -> Figure:
    """Draw a table whose points differ in sequence length and head size."""
    every = points(table, table.metric)
    found = head_size_curves(every)
    arms = list(table.experiment["arms"])
    lengths = sorted({curve.length for curve in found})
    looks = panel.curve_looks(arms, [(arm, length) for arm in arms for length in lengths])
    figure = Figure(figsize=(panel.DOUBLE_COLUMN, panel.DOUBLE_COLUMN))
    panels = figure.subplots(1, len(arms), squeeze=False)[0]
    everything = [mark for curve in found for mark in marks_of(curve)]
    beside: list[tuple[Axes, panel.Label]] = []
    for letter, axes, arm in zip("abcdef", panels, arms, strict=False):
        own = [curve for curve in found if curve.arm == arm]
        curves = [(looks[arm, curve.length], marks_of(curve)) for curve in own]
        panel.fill(
            axes, _ACROSS, table.metric, curves, letter=letter, scaled=everything, exact=True
        )
        axes.set_title(panel.plain(table.label(arm), 24), pad=14)
        if everything:
            axes.set(xscale="linear", xlabel=_ACROSS, xlim=(0, 1.06))
            axes.set(xticks=_TICKS, xticklabels=map(str, _TICKS))
        if not own:
            continue
        above = axes.get_xaxis_transform()
        for place, words in _GUIDES.items():
            axes.axvline(
                place, color=panel.FAINT_INK, linewidth=0.7, linestyle=(0, (4, 3)), zorder=1
            )
            faint: dict[str, Any] = {
                "ha": "center",
                "fontsize": panel.SMALL_PT,
                "color": panel.FAINT_INK,
            }
            axes.text(place, 1.02, words, transform=above, **faint)
        for curve in own:
            colour, n = looks[curve.arm, curve.length].colour, curve.length
            axes.plot([(n - 1) / n], [1.0], transform=above, color=colour, clip_on=False, **_ABOVE)
            if curve.knee is not None:
                knee = marks_of(curve)[list(curve.points).index(curve.knee)]
                axes.plot([knee.x], [knee.mean], color=panel.INK, zorder=5, **_RING)
                beside.append((axes, (str(curve.knee), panel.INK, knee)))
    notes = panel.notes_on(table, every, found[0].spread if found else None)
    legend: list[panel.Entry] = [
        (tuple(looks[arm, n].handle() for arm in arms), f"n = {n}") for n in lengths
    ]
    if looks:
        ring = Line2D([], [], color=panel.INK, linestyle="none", **_RING)
        triangle = Line2D([], [], color=panel.FAINT_INK, **_ABOVE)
        legend += [((ring,), "measured knee, its head size"), ((triangle,), "n - 1")]
    panel.lay_out(figure, _PANEL_PT, table, legend, notes)
    for axes in panels:
        panel.label_points(axes, [label for own, label in beside if own is axes])
    return figure


def marks_of(curve: HeadSizeCurve) -> list[panel.Mark]:
    """Return a curve's errors over head size / n; intervals are those of the logarithms."""
    found = []
    for size, point in curve.points.items():
        known = curve.estimate(size)
        ends = interval(known)
        found.append(
            panel.Mark(
                size / curve.length,
                10**known.mean,
                ends and (10 ** ends[0], 10 ** ends[1]),
                tuple(10**value for value in point.values.values()),
                point,
            )
        )
    return found
