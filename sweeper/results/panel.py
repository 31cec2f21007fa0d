"""The panels of a figure: curves, intervals, every seed, scales and ticks.

A figure makes `Curves` from a table's points and draws them in one or several panels. Then `finish`
adds the title, the legend and the notes.
"""

import math
import textwrap
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import methodcaller
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullLocator,
)

from sweeper.results.judge import decidable
from sweeper.results.layout import FAINT_INK, SMALL_PT, Entry, Style, lay_out, plain
from sweeper.results.palette import MARKERS, PALETTE, arm_looks
from sweeper.results.points import Point, Spreads, guides, seed_spread, transformed
from sweeper.results.remarks import (
    caveats,
    marks_in_words,
    matching_errors,
    not_drawn,
    not_learned,
    one_pretraining,
    origin,
    standing,
)
from sweeper.results.table import LOGARITHMIC_FROM, Table, label, number
from sweeper.store.numbers import short

MOST_CATEGORIES = 8

# A guide is a dashed line to compare values with. Its label stands at its right end.
GUIDE: Style = {"color": FAINT_INK, "linewidth": 0.7, "linestyle": (0, (4, 3))}
_GUIDE_WORDS: Style = {
    "xytext": (-2, 1),
    "textcoords": "offset points",
    "ha": "right",
    "fontsize": SMALL_PT,
    "color": FAINT_INK,
}

# The y-axis extends above and below the values of all seeds by at most this multiple of their
# range. Longer intervals are cut off.
_REACH = 1.5
# The line of a baseline is drawn only if it is within this multiple of the range. A line farther
# away would flatten the curves.
_GUIDE_REACH = 0.75
_LARGEST = 1e150  # larger values would overflow the ticks of an axis
_LIGHTEST = 0.4  # mix this share of an arm's colour with white for its first curve


@dataclass(frozen=True)
class Look:
    """The style of a curve. If `single` is set, the points are hollow and no line joins them."""

    colour: str
    marker: str
    single: bool

    def style(self) -> Style:
        """Return the keyword arguments of a `Line2D` with this look."""
        return {
            "color": self.colour,
            "linestyle": "none" if self.single else "-",
            "marker": self.marker,
            "markersize": 5.0 if self.single else 4.0,
            "markerfacecolor": "white" if self.single else self.colour,
            "markeredgecolor": self.colour if self.single else "white",
            "markeredgewidth": 1.1 if self.single else 0.5,
        }


@dataclass(frozen=True)
class Curve:
    """Points of one arm that share a look.

    Attributes:
        arm: the arm.
        key: the value that distinguishes the curve from other curves of the arm, such as the number
            of heads.
        look: its colour and marker.
        points: the points with at least one finished run.
    """

    arm: str
    key: Any
    look: Look
    points: list[Point]


@dataclass(frozen=True)
class Mark:
    """A point in a panel: its mean over seeds, the ends of its interval, and every seed."""

    x: float
    mean: float
    ends: tuple[float, float] | None
    seeds: tuple[float, ...]
    point: Point


class Curves:
    """The points of a table, grouped into curves, with their values of one metric.

    If values span a factor of ten, means and intervals are computed from logarithms.

    Args:
        table: the table.
        points: some or all points of the table.
        metric: the metric; the table's own by default.
        by: a function that returns the key of a point's curve. By default, an arm has one curve.
    """

    def __init__(
        self,
        table: Table,
        points: Sequence[Point],
        metric: str = "",
        by: Callable[[Point], Hashable] = lambda point: None,
    ) -> None:
        self.table = table
        self.metric = metric or table.metric
        self.points, self.back = transformed(points, self.metric)
        self.spread = seed_spread(self.points)

        groups: dict[tuple[str, Any], list[Point]] = {}
        for point in self.points:
            if point.values:
                groups.setdefault((point.arm, by(point)), []).append(point)

        self.arms = list(table.experiment["arms"])

        def place(key: tuple[str, Any]) -> tuple[int, float]:
            return self.arms.index(key[0]), number(key[1]) or 0.0

        order = sorted(groups, key=place)
        looks = curve_looks(self.arms, order)
        self.every = [Curve(*key, looks[key], groups[key]) for key in order]

    def of(self, arm: str) -> list[Curve]:
        """Return the curves of an arm."""
        return [curve for curve in self.every if curve.arm == arm]

    def marks(
        self, curve: Curve, at: str | Callable[[Point], float | None]
    ) -> list[Mark]:
        """Return the marks of a curve's points from left to right.

        `at` is a column, or a function that returns a point's position on the x-axis. Points
        without a position are left out.
        """
        place = methodcaller("at", at) if isinstance(at, str) else at
        found = [
            _mark(x, point, self.spread, self.back)
            for point in curve.points
            if (x := place(point)) is not None
        ]
        return sorted(found, key=lambda mark: (mark.x, mark.mean))

    def draw(
        self,
        axes: Axes,
        x: str,
        curves: Sequence[Curve] | None = None,
        at: Callable[[Point], float | None] | None = None,
        words: str = "",
        guided: bool = True,
    ) -> list[list[Mark]]:
        """Draw curves in a panel, set its labels, scales and ticks, and return the curves' marks.

        Args:
            axes: the panel.
            x: the column on the x-axis. If it is a config key, ticks stand at its values.
            curves: the curves to draw; all by default.
            at: a function that returns a point's position on the x-axis. By default, it is the
                point's number in the column.
            words: the label of the y-axis; the metric's label by default.
            guided: whether to draw lines of n-gram models. They are wrong beside values that are
                not the metric itself, such as differences.
        """
        drawn = self.every if curves is None else curves
        found = [self.marks(curve, at or x) for curve in drawn]
        marks = [mark for own in found for mark in own]
        axes.set(xlabel=plain(label(x)), ylabel=plain(words or label(self.metric)))
        if not marks:
            middle: Style = {"ha": "center", "va": "center"}
            axes.text(0.5, 0.5, "no finished run", transform=axes.transAxes, **middle)
            axes.set(xticks=[], yticks=[])
            return found

        seeds = [value for mark in marks for value in mark.seeds]
        scale(axes.xaxis, [mark.x for mark in marks], own="." in x)
        scale(axes.yaxis, seeds, linear=self.back is float)
        for curve, own in zip(drawn, found, strict=True):
            _draw(axes, curve.look, own)

        low, high = min(seeds), max(seeds)
        span = high - low or abs(high) * 0.05
        top, bottom = high + _REACH * span, low - _REACH * span
        if low > 0:
            bottom = max(bottom, low / 2)
        for mark in marks:
            ends = np.clip(mark.ends or (low, low), bottom, top)
            axes.update_datalim([(mark.x, end) for end in ends])

        if guided and self.metric == self.table.metric:
            reach = _GUIDE_REACH * span
            for name, height in guides(self.table).items():
                if low - reach <= height <= high + reach:
                    axes.axhline(height, zorder=1, **GUIDE)
                    guide_words(axes, name, (1, height), axes.get_yaxis_transform())
        axes.autoscale_view()
        return found


def _mark(
    x: float, point: Point, spread: Spreads, back: Callable[[float], float]
) -> Mark:
    """Return the mark of a point. `back` converts its values back, for example from logarithms."""

    def shown(value: float) -> float:
        return max(-_LARGEST, min(back(value), _LARGEST))

    seeds = tuple(shown(point.values[seed]) for seed in sorted(point.values))
    ends = point.interval(spread)
    drawn = (shown(ends[0]), shown(ends[1])) if ends else None
    return Mark(x, shown(point.mean), drawn, seeds, point)


def finish(
    figure: Figure,
    height_pt: float,
    legend: Sequence[Entry],
    *drawn: Curves,
    notes: Sequence[str] = (),
) -> Figure:
    """Add the title, the legend and the notes to a figure of these curves, and return it.

    `height_pt` is the height of all panels and their axis labels, in points.
    """
    table = drawn[0].table
    points = [point for one in drawn for point in one.points]
    spreads = [one.spread for one in drawn]
    below = [*notes, *notes_on(table, points, *spreads)]
    lay_out(figure, height_pt, table.title, legend, below)
    return figure


def notes_on(table: Table, points: Sequence[Point], *spreads: Spreads) -> list[str]:
    """Return the sentences below a figure, for example on its marks and on missing runs.

    Args:
        table: the drawn table.
        points: the drawn points.
        spreads: the results of `seed_spread`, from which the intervals are computed.
    """
    terms = dict.fromkeys(str(one.terms) for one in decidable(table))
    return [
        *origin(table),
        *not_drawn(table, points),
        *marks_in_words(points, *spreads),
        *one_pretraining(table, points),
        *matching_errors(table),
        *standing(table),
        *not_learned(table),
        *terms,
        *caveats(table),
    ]


def entry(curves: Sequence[Curve], words: str) -> Entry:
    """Return one entry of a legend for these curves. It shows at most three of their looks."""
    looks = list(dict.fromkeys(curve.look for curve in curves))
    if len(looks) > 3:
        looks = [looks[0], looks[len(looks) // 2], looks[-1]]
    return tuple(Line2D([], [], **look.style()) for look in looks), words


def sample(words: str, **style: Any) -> Entry:
    """Return an entry of a legend for a line or a marker of this style."""
    return (Line2D([], [], **style),), words


def legend_of(*drawn: Curves) -> list[Entry]:
    """Return an entry of a legend for each arm that has a curve."""
    table = drawn[0].table
    arms = {arm: [c for one in drawn for c in one.of(arm)] for arm in drawn[0].arms}
    return [entry(own, table.label(arm)) for arm, own in arms.items() if own]


def by_curve(curves: Curves, words: Callable[[Any], str]) -> list[Entry]:
    """Return an entry of a legend for each curve. It names the arm if there are several arms.

    `words` is a function from the key of a curve to its words.
    """
    several = len({curve.arm for curve in curves.every}) > 1
    legend = []
    for curve in curves.every:
        arm = curves.table.label(curve.arm) if several else ""
        parts = filter(None, [arm, words(curve.key)])
        legend.append(entry([curve], ": ".join(parts)))
    return legend


def by_key(curves: Curves, words: str) -> list[Entry]:
    """Return an entry of a legend for each key of the curves.

    `words` is a format string for the key, such as "{} heads".
    """
    groups: dict[Any, list[Curve]] = {}
    for curve in sorted(curves.every, key=lambda curve: curve.key):
        groups.setdefault(curve.key, []).append(curve)
    return [entry(own, words.format(key)) for key, own in groups.items()]


def curve_looks(
    arms: Iterable[str], curves: Iterable[tuple[str, Any]]
) -> dict[tuple[str, Any], Look]:
    """Return the look of each curve, keyed by its arm and its key.

    Curves of one arm have shades of its colour. If there is only one arm, its curves also have
    different markers.
    """
    by_arm: dict[str, list[tuple[str, Any]]] = {}
    for curve in curves:
        by_arm.setdefault(curve[0], []).append(curve)

    known = arm_looks(dict.fromkeys([*arms, *by_arm]))
    found = {}
    for arm, own in by_arm.items():
        colour, marker, single = known[arm]
        shades = LinearSegmentedColormap.from_list("shades", ["white", PALETTE[colour]])
        shares = np.linspace(1, _LIGHTEST, len(own))[::-1]
        for place, curve in enumerate(own):
            other = place if len(known) == 1 else marker
            found[curve] = Look(
                to_hex(shades(shares[place])),
                MARKERS[other % len(MARKERS)],
                single,
            )
    return found


def guide_words(
    axes: Axes, words: str, place: tuple[float, float], coordinates: Any = "data"
) -> None:
    """Write a label at the right end of a guide line, which is at `place`."""
    axes.annotate(words, place, xycoords=coordinates, zorder=1, **_GUIDE_WORDS)


def _draw(axes: Axes, look: Look, marks: Sequence[Mark]) -> None:
    """Draw the means, the intervals, and a faint marker for every seed."""
    means = [(mark.x, mark.mean) for mark in marks]
    _plot(axes, means, zorder=4, **look.style())

    bars = [[(mark.x, end) for end in mark.ends] for mark in marks if mark.ends]
    lines = LineCollection(bars, colors=look.colour, linewidths=0.8, zorder=3)
    axes.add_collection(lines, autolim=False)

    dots: Style = {"color": look.colour, "marker": "o", "linestyle": "none"}
    several = [mark for mark in marks if len(mark.seeds) > 1]
    seeds = [(mark.x, value) for mark in several for value in mark.seeds]
    faint = {"alpha": 0.3, "markersize": 2.6, "markeredgewidth": 0}
    _plot(axes, seeds, zorder=2, **dots, **faint)


def _plot(axes: Axes, places: Sequence[tuple[float, float]], **style: Any) -> None:
    """Plot these (x, y) places as one line."""
    if places:
        axes.plot(*zip(*places, strict=True), **style)


def categories(axes: Axes, words: Sequence[str]) -> None:
    """Label the positions 0, 1, ... of the x-axis, with line breaks so that labels do not overlap.

    If there are more than MOST_CATEGORIES, set no labels.
    """
    axes.set_xlim(-0.5, len(words) - 0.5)
    shown = words if len(words) <= MOST_CATEGORIES else []
    lines = [
        textwrap.wrap(plain(word), 52 // len(shown), max_lines=4, placeholder="…")
        for word in shown
    ]
    axes.set_xticks(range(len(shown)), ["\n".join(own) for own in lines])


def scale(
    axis: XAxis | YAxis,
    values: Sequence[float],
    *,
    own: bool = False,
    linear: bool = False,
) -> None:
    """Set the scale and the ticks of an axis.

    The scale is logarithmic if the values are positive and span a factor of ten. If `own` is set,
    it is also logarithmic if each value is the same multiple of the one before, as in 1, 2, 4, 8.

    Args:
        axis: the axis.
        values: the values on it.
        own: whether to put ticks at the values instead of round numbers.
        linear: whether the scale must be linear.
    """
    ordered = sorted(set(values))
    low, high = ordered[0], ordered[-1]
    ratios = [after / before for before, after in pairwise(ordered) if before > 0]
    steady = own and len(ratios) > 2 and all(math.isclose(r, ratios[0]) for r in ratios)
    logarithmic = not linear and low > 0 and (steady or high / low >= LOGARITHMIC_FROM)

    # Set the scale first, because this resets the locator and the formatter.
    name = axis.axis_name
    axis.axes.set(**{f"{name}scale": "log" if logarithmic else "linear"})
    if own and len(ordered) <= 12:
        axis.set_major_locator(FixedLocator(ordered, nbins=8))
    elif logarithmic:
        subs = (1,) if high / low > 100 else (1, 2, 5)
        axis.set_major_locator(LogLocator(subs=subs, numticks=6))
    else:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value, 6)))
    axis.set_minor_locator(NullLocator())
    if logarithmic:
        axis.set_label_text(f"{axis.get_label_text()} (log)")
