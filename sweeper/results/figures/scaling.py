"""The effect of each claim at each scale, extrapolated to the margin.

The table has points of several scales (`effects`). Each claim that is measured at two or more has a
panel with a line in the logarithm of training FLOPs and its confidence band. The extrapolated part
is dashed and hatched.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from sweeper.results import panel
from sweeper.results.decision import Measurements, effects
from sweeper.results.palette import PALETTE
from sweeper.results.statistics.expected_cost import line
from sweeper.results.table import Table
from sweeper.results.verdict import Found
from sweeper.store.numbers import short

CLAIMS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "wins_at_equal_size": ("fixed size over d/h", {}),
    "fixed_keeps_improving": ("more heads of one size", {}),
    "small_beats_large": ("small embedding over large", {"standard": "larger"}),
}
"""Claims judged at each scale: what gains, and arms that stand in for those of the claim."""

_PANEL_PT = 160.0
_AHEAD = 1.5  # decades drawn beyond the last scale
_INTERVALS = (
    "Each scale is judged by itself: its intervals hold however often one looks. Line: weighted by "
    "them; its band has their confidence if the truth is a line, which nobody knows. It is wider "
    "where points scatter more than their intervals allow."
)
_COLOUR = PALETTE[0]
_AHEAD_LINE: dict[str, Any] = {"color": _COLOUR, "linestyle": (0, (3, 2)), "linewidth": 1.0}


def draw(table: Table) -> Figure:
    """Draw a table with the arms `standard`, `fixed` and `larger` at each scale."""
    measured = Measurements(table, table.metric)
    margin = measured.margin.size if measured.margin else 0.0
    shown = _per_cent if measured.ratios else float
    every = {words: effects(table, claim, **roles) for claim, (words, roles) in CLAIMS.items()}
    known = {words: found for words, found in every.items() if len(found) > 1}
    figure = Figure(figsize=(panel.DOUBLE_COLUMN, panel.DOUBLE_COLUMN))
    panels = figure.subplots(1, max(1, len(known)), squeeze=False)[0]
    places = []
    for letter, axes, (words, found) in zip("abc", panels, known.items(), strict=False):
        axes.set_title(f"({letter}) {words}", loc="left", pad=4)
        axes.set_xlabel("training FLOPs (log)")
        places.append(f"({letter}) {_panel(axes, found, margin, shown)}")
    if not known:
        panel.empty(panels[0], "fewer than two scales are measured")
    kind = table.metric.rpartition("/")[2].replace("_", " ")
    panels[0].set_ylabel(f"gain in {kind} (%)" if measured.ratios else f"gain in {kind}")
    reached = f"FLOPs at the margin, if the line goes on: {'; '.join(places)}."
    notes = [*[reached] * bool(places), _INTERVALS, *panel.notes_on(table, [])]
    dot = Line2D([], [], color=_COLOUR, marker="o")
    legend: list[panel.Entry] = [
        ((dot,), "gain, its interval, and a line through all"),
        ((Line2D([], [], **_AHEAD_LINE),), "extrapolated"),
        ((Line2D([], [], **panel.GUIDE),), "the margin"),
    ]
    panel.lay_out(figure, _PANEL_PT, table, legend, notes)
    return figure


def _per_cent(log: float) -> float:
    return 100 * math.expm1(max(min(log, 5.0), -5.0))


def _panel(
    axes: Axes, found: Sequence[tuple[float, Found]], margin: float, shown: Callable[[float], float]
) -> str:
    """Draw the effects of a claim and their line; return the FLOPs at the margin as text."""
    axes.axhline(0, color=panel.FAINT_INK, linewidth=0.7)
    axes.axhline(shown(margin), **panel.GUIDE)
    across = [flops for flops, _ in found]
    xs = [math.log10(flops) for flops in across]
    values = [one.value for _, one in found]
    fitted = line(xs, values, [(one.high - one.low) / 2 for _, one in found])
    for start, end, ahead in ((xs[0], xs[-1], False), (xs[-1], xs[-1] + _AHEAD, True)):
        places = np.linspace(start, end, 50)
        value, low, high = (np.vectorize(shown)(ends) for ends in fitted.at(places))
        axes.plot(10**places, value, **(_AHEAD_LINE if ahead else {"color": _COLOUR}))
        hatch: dict[str, Any] = {"hatch": "///", "alpha": 0.12} if ahead else {"alpha": 0.25}
        axes.fill_between(10**places, low, high, color=_COLOUR, linewidth=0, **hatch)
    for flops, one in found:
        axes.plot([flops] * 2, [shown(one.low), shown(one.high)], color=_COLOUR, linewidth=0.8)
    axes.plot(across, [*map(shown, values)], "o", color=_COLOUR)
    ticks = [*across, across[-1] * 10**_AHEAD]
    axes.set_xscale("log")
    axes.set_xticks(ticks, [short(tick, 2) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    value, soonest, latest = (
        "not in sight"
        if place is None
        else "reached"
        if place == fitted.last
        else short(10**place, 3)
        for place in fitted.reaches(margin)
    )
    return value if value == soonest == latest else f"{value} [{soonest}, {latest}]"
