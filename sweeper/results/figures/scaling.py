"""What each claim's effect is at each scale, and where it is expected to reach the margin.

In: a table whose points are of several scales (`effects`). A panel for each claim; the line is
straight in the logarithm of training FLOPs, with the band that the intervals leave it, and dashed
and hatched where it is extrapolated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from sweeper.results.claims.evidence.decision import Effect, Measurements, effects
from sweeper.results.figures.layout.palette import PALETTE
from sweeper.results.figures.layout.panel import (
    DOUBLE_COLUMN,
    FAINT_INK,
    RC,
    Entry,
    lay_out,
    notes_on,
)
from sweeper.results.statistics.expected_cost import Line, line
from sweeper.results.table import Table
from sweeper.store.numbers import short

CLAIMS: Mapping[str, Mapping[str, str]] = {
    "wins_at_equal_size": {},
    "standard_worsens_beyond": {},
    "fixed_keeps_improving": {},
    "small_beats_large": {"standard": "larger"},
}
"""The claims that are asked at each scale, with the arms that play other roles than their own."""

_PANELS_PT = 300.0
_AHEAD = 1.5  # decades drawn beyond the last scale
_INTERVALS = (
    "Each scale is judged by itself: its intervals hold however often one looks. Line: weighted by "
    "them; its band has their confidence if the truth is a line, which nobody knows."
)
_COLOUR = PALETTE[0]
_MARGIN: dict[str, Any] = {"color": FAINT_INK, "linewidth": 0.7, "linestyle": (0, (4, 3))}
_AHEAD_LINE: dict[str, Any] = {"color": _COLOUR, "linestyle": (0, (3, 2)), "linewidth": 1.0}


@rc_context(RC)
def draw(table: Table) -> Figure:
    """The figure, from a table with the arms `standard`, `fixed` and `larger` at each scale."""
    measured = Measurements(table, table.metric)
    margin = measured.margin.size if measured.margin else 0.0
    shown = _per_cent if measured.ratios else float
    figure = Figure(figsize=(DOUBLE_COLUMN, DOUBLE_COLUMN))
    panels = figure.subplots(2, 2).ravel()
    told = []
    for letter, axes, (claim, roles) in zip("abcd", panels, CLAIMS.items(), strict=True):
        found = effects(table, claim, **roles)
        axes.set_title(f"({letter}) {claim.replace('_', ' ')}", loc="left", pad=4)
        told.append(f"({letter}) {_drawn(axes, found, margin, shown)}")
    for axes in panels[2:]:
        axes.set_xlabel("training FLOPs (log)")
    for axes in panels[::2]:
        axes.set_ylabel("effect (%)" if measured.ratios else "effect")
    reached = f"FLOPs at the margin, if the line goes on: {'; '.join(told)}."
    notes = [reached, _INTERVALS, *notes_on(table, [])]
    lay_out(figure, _PANELS_PT, table, _legend(), notes)
    return figure


def _per_cent(log: float) -> float:
    return 100 * math.expm1(max(min(log, 5.0), -5.0))


def _drawn(
    axes: Axes, found: Sequence[Effect], margin: float, shown: Callable[[float], float]
) -> str:
    """Draw a claim's effects and what they promise; where it reaches the margin, in words."""
    if len(found) < 2:
        words = "fewer than two scales are measured"
        axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", color=FAINT_INK)
        axes.set(xticks=[], yticks=[])
        return "not known"
    axes.axhline(0, color=FAINT_INK, linewidth=0.7)
    axes.axhline(shown(margin), **_MARGIN)
    xs = [math.log10(one.flops) for one in found]
    fitted = line(xs, [one.value for one in found], [(one.high - one.low) / 2 for one in found])
    for start, end, ahead in ((xs[0], xs[-1], False), (xs[-1], xs[-1] + _AHEAD, True)):
        places = np.linspace(start, end, 50)
        value, low, high = (np.vectorize(shown)(ends) for ends in fitted.at(places))
        axes.plot(10**places, value, **(_AHEAD_LINE if ahead else {"color": _COLOUR}))
        hatch: dict[str, Any] = {"hatch": "///", "alpha": 0.12} if ahead else {"alpha": 0.25}
        axes.fill_between(10**places, low, high, color=_COLOUR, linewidth=0, **hatch)
    for one in found:
        axes.plot([one.flops] * 2, [shown(one.low), shown(one.high)], color=_COLOUR, linewidth=0.8)
    across = [one.flops for one in found]
    axes.plot(across, [shown(one.value) for one in found], "o", color=_COLOUR)
    ticks = [*across, across[-1] * 10**_AHEAD]
    axes.set_xscale("log")
    axes.set_xticks(ticks, [short(tick, 3) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    return _reached(fitted, margin)


def _reached(fitted: Line, margin: float) -> str:
    """The FLOPs at which the line is at the margin, and those at which the band may be."""
    value, soonest, latest = (_place(place, fitted.last) for place in fitted.reaches(margin))
    return value if value == soonest == latest else f"{value} [{soonest}, {latest}]"


def _place(place: float | None, last: float) -> str:
    if place is None:
        return "not in sight"
    return "reached" if place == last else short(10**place, 3)


def _legend() -> list[Entry]:
    dot = Line2D([], [], color=_COLOUR, marker="o")
    return [
        ((dot,), "effect, its interval, and a line through all"),
        ((Line2D([], [], **_AHEAD_LINE),), "extrapolated"),
        ((Line2D([], [], **_MARGIN),), "the margin"),
    ]
