"""What heads smaller than the largest cost, over head size: a curve for each sequence length n.

Above the panel stand, in the colour of each curve, the head sizes at which Theorem 1's error was
measured to collapse: n / 2 under a causal mask, and n - 1 without one (experiment=theorem1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeper.results.figures.layout.panel import (
    COLUMN,
    FAINT_INK,
    RC,
    Entry,
    Look,
    curve_looks,
    fill,
    lay_out,
    marks,
    notes_on,
)
from sweeper.results.figures.theorem1 import HEAD_SIZE, LENGTH
from sweeper.results.points import Point, points, seed_spread
from sweeper.results.statistics.estimates import mean
from sweeper.results.table import Table

_PANEL_PT = 170.0
_KNEE: dict[str, Any] = {"markersize": 5.0, "linestyle": "none", "clip_on": False}
_CAUSAL: dict[str, Any] = {**_KNEE, "marker": "v", "markeredgewidth": 0.0}
_BIDIRECTIONAL: dict[str, Any] = {**_KNEE, "marker": "v", "markerfacecolor": "white"}


@rc_context(RC)
def draw(table: Table) -> Figure:
    """The figure, from a table whose points differ in sequence length and head size."""
    every = points(table, table.metric)
    curves = {n: _over_the_largest(own) for n, own in _by_length(every).items()}
    arm = next(iter(table.experiment["arms"]))
    looks = {n: curve_looks([arm], [(arm, n) for n in curves])[arm, n] for n in curves}
    spread = seed_spread(every)
    figure = Figure(figsize=(COLUMN, COLUMN))
    axes = figure.add_subplot()
    drawn = [
        (looks[n], marks(own, lambda point: point.at(HEAD_SIZE), spread))
        for n, own in curves.items()
    ]
    fill(axes, HEAD_SIZE, table.metric, drawn, own=True)
    if any(own for _, own in drawn):
        _mark(axes, looks)
    notes = [
        "Shown is what it is above that of the largest head at the same n.",
        *notes_on(table, every, spread),
    ]
    lay_out(figure, _PANEL_PT, table, _legend(looks), notes)
    return figure


def _by_length(every: Sequence[Point]) -> dict[int, list[Point]]:
    lengths = sorted({int(n) for point in every if (n := point.at(LENGTH)) is not None})
    return {
        n: sorted(
            (point for point in every if point.at(LENGTH) == n),
            key=lambda point: point.at(HEAD_SIZE) or 0.0,
        )
        for n in lengths
    }


def _over_the_largest(curve: Sequence[Point]) -> list[Point]:
    """The points less the mean of the largest head size that has any value."""
    known = [point for point in curve if point.values]
    if not known:
        return []
    base = mean(list(known[-1].values.values()))
    shifted = [{seed: value - base for seed, value in p.values.items()} for p in known]
    return [replace(point, values=values) for point, values in zip(known, shifted, strict=True)]


def _mark(axes: Axes, looks: dict[int, Look]) -> None:
    """Each length's knees above the panel, where the axis reaches them."""
    above, (low, high) = axes.get_xaxis_transform(), axes.get_xlim()
    for n, look in looks.items():
        for place, how, height in ((n // 2, _CAUSAL, 1.02), (n - 1, _BIDIRECTIONAL, 1.06)):
            if low <= place <= high:
                axes.plot([place], [height], transform=above, color=look.colour, **how)


def _legend(looks: dict[int, Look]) -> list[Entry]:
    causal, bidirectional = (
        Line2D([], [], color=FAINT_INK, **how) for how in (_CAUSAL, _BIDIRECTIONAL)
    )
    return [
        *(((look.handle(),), f"n = {n}") for n, look in looks.items()),
        *([((causal,), "n / 2"), ((bidirectional,), "n - 1")] if looks else []),
    ]
