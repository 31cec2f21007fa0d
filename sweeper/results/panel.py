"""The panels of a figure: curves, intervals, every seed, scales and ticks.

A figure makes `Curves` from a table's points and draws them in one or several panels. Then `finish`
adds the title, the legend and the notes.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import methodcaller
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgb
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
from sweeper.results.palette import MARKERS, PALETTE, ArmLook, arm_looks
from sweeper.results.points import Point, guides, seed_spread, transformed
from sweeper.results.remarks import (
    baseline_scores,
    caveats,
    marks_in_words,
    matching_errors,
    not_drawn,
    not_learned,
    one_pretraining,
    origin,
)
from sweeper.results.table import LOGARITHMIC_FROM, Table, label, number
from sweeper.store.numbers import short

# The style of a guide: a dashed line to compare values with, and its label at the right end.
GUIDE: Style = {"color": FAINT_INK, "linewidth": 0.7, "linestyle": (0, (4, 3))}
_GUIDE_WORDS: Style = {
    "xytext": (-2, 1),
    "textcoords": "offset points",
    "ha": "right",
    "fontsize": SMALL_PT,
    "color": FAINT_INK,
}

# Intervals can extend the y-axis above and below the values of all seeds by at most this multiple
# of the values' range. Longer intervals are cut off.
_REACH = 1.5
# The line of a baseline is drawn only if its distance from the values is at most this multiple of
# the values' range. A line farther away would flatten the curves.
_GUIDE_REACH = 0.75
_LARGEST = 1e150  # larger values would overflow the ticks of an axis
_LIGHTEST = 0.4  # the share of an arm's colour in its lightest shade; the rest is white


@dataclass(frozen=True)
class Curve:
    """A curve in a panel: points of one arm, drawn in one style.

    Attributes:
        arm: the arm.
        key: the value that distinguishes the curve from other curves of the arm, such as the number
            of heads; None if the arm has one curve.
        style: the keyword arguments of its `Line2D`.
        points: the points with at least one finished run.
    """

    arm: str
    key: Any
    style: Style
    points: list[Point]


@dataclass(frozen=True)
class Mark:
    """A point as drawn in a panel: its mean, the ends of its interval, and the value of each seed.

    `ends` is empty if the interval is unknown.
    """

    x: float
    mean: float
    ends: list[float]
    seeds: list[float]
    point: Point


class Curves:
    """The points of a table, grouped into curves, with their values of one metric.

    If the values span a factor of ten, means and intervals are computed from their logarithms (see
    `transformed`).

    Args:
        table: the table.
        points: some or all points of the table, with their values of the metric.
        metric: the metric; by default, that of the table.
        by: a function that maps a point to the key of its curve. By default, each arm has one
            curve.
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

        self.arms = list(table.experiment["arms"])
        looks = arm_looks(self.arms)
        self.every: list[Curve] = []
        for arm in self.arms:
            groups: dict[Any, list[Point]] = defaultdict(list)
            for point in self.points:
                if point.arm == arm and point.values:
                    groups[by(point)].append(point)

            keys = sorted(groups, key=lambda key: number(key) or 0.0)
            styles = curve_styles(looks[arm], len(keys), alone=len(looks) == 1)
            for key, style in zip(keys, styles, strict=True):
                self.every.append(Curve(arm, key, style, groups[key]))

    def of(self, arm: str) -> list[Curve]:
        """Return the curves of an arm."""
        return [curve for curve in self.every if curve.arm == arm]

    def marks(self, curve: Curve, at: Callable[[Point], float | None]) -> list[Mark]:
        """Return the marks of a curve's points from left to right.

        `at` maps a point to its position on the x-axis. If it returns None, the point is left out.
        """
        found = []
        for point in curve.points:
            x = at(point)
            if x is not None:
                mean, *ends = map(
                    self._shown, (point.mean, *(point.interval(self.spread) or ()))
                )
                seeds = [self._shown(value) for value in point.values.values()]
                found.append(Mark(x, mean, ends, seeds, point))
        return sorted(found, key=lambda mark: (mark.x, mark.mean))

    def _shown(self, value: float) -> float:
        """Convert a value back, for example from a logarithm, and limit its size."""
        return max(-_LARGEST, min(self.back(value), _LARGEST))

    def draw(
        self,
        axes: Axes,
        x: str,
        curves: Sequence[Curve] | None = None,
        at: Callable[[Point], float | None] | None = None,
        guided: bool = True,
    ) -> list[list[Mark]]:
        """Draw curves in a panel, set its labels, scales and ticks, and return the curves' marks.

        Args:
            axes: the panel.
            x: the column on the x-axis. If it is a config key, the ticks are at its values.
            curves: the curves to draw; all by default.
            at: a function that maps a point to its position on the x-axis. By default, the position
                is the point's number in the column.
            guided: whether to draw the perplexities of n-gram models as lines. Set it to False if
                the values are not those of the metric itself, but for example differences.
        """
        drawn = self.every if curves is None else curves
        place = at or methodcaller("at", x)
        found = [self.marks(curve, place) for curve in drawn]
        marks = [mark for own in found for mark in own]
        axes.set(xlabel=plain(label(x)), ylabel=plain(label(self.metric)))
        if not marks:
            middle: Style = {"ha": "center", "va": "center"}
            axes.text(0.5, 0.5, "no finished run", transform=axes.transAxes, **middle)
            axes.set(xticks=[], yticks=[])
            return found

        seeds = [value for mark in marks for value in mark.seeds]
        scale(axes.xaxis, [mark.x for mark in marks], own="." in x)
        scale(axes.yaxis, seeds, linear=self.back is float)
        for curve, own in zip(drawn, found, strict=True):
            _draw(axes, curve.style, own)

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
    below = [*notes, *notes_on(*drawn)]
    lay_out(figure, height_pt, drawn[0].table.title, legend, below)
    return figure


def notes_on(*drawn: Curves) -> list[str]:
    """Return the sentences below a figure, for example on its marks and on missing runs."""
    table = drawn[0].table
    points = [point for one in drawn for point in one.points]
    spreads = [one.spread for one in drawn]
    terms = dict.fromkeys(str(one.terms) for one in decidable(table))
    return [
        *origin(table),
        *not_drawn(table, points),
        *marks_in_words(points, *spreads),
        *one_pretraining(table, points),
        *matching_errors(table),
        *baseline_scores(table),
        *not_learned(table),
        *terms,
        *caveats(table),
    ]


def sample(words: str, **style: Any) -> Entry:
    """Return a legend entry that shows a line or a marker of this style, labelled `words`."""
    return (Line2D([], [], **style),), words


def legend_by(curves: Iterable[Curve], words: Callable[[Curve], str]) -> list[Entry]:
    """Return a legend of curves. `words` returns the label of a curve.

    Curves with equal labels share an entry, which shows at most three of their styles.
    """
    groups: dict[str, list[Style]] = defaultdict(list)
    for curve in curves:
        styles = groups[words(curve)]
        if curve.style not in styles:
            styles.append(curve.style)

    legend = []
    for text, styles in groups.items():
        if len(styles) > 3:
            styles = [styles[0], styles[len(styles) // 2], styles[-1]]
        legend.append((tuple(Line2D([], [], **style) for style in styles), text))
    return legend


def legend_of(*drawn: Curves) -> list[Entry]:
    """Return a legend with an entry for each arm that has a curve."""
    curves = [curve for one in drawn for curve in one.every]
    return legend_by(curves, lambda curve: drawn[0].table.label(curve.arm))


def legend_by_curve(curves: Curves, words: Callable[[Any], str]) -> list[Entry]:
    """Return a legend with an entry for each curve. `words` maps the key of a curve to its label.

    If there are several arms, each label begins with the arm.
    """
    arms = {curve.arm: curves.table.label(curve.arm) for curve in curves.every}

    def described(curve: Curve) -> str:
        parts = [arms[curve.arm] if len(arms) > 1 else "", words(curve.key)]
        return ": ".join(filter(None, parts))

    return legend_by(curves.every, described)


def curve_styles(look: ArmLook, count: int, *, alone: bool = False) -> list[Style]:
    """Return the styles of an arm's curves, in shades of its colour from light to dark.

    Args:
        look: the look of the arm.
        count: the number of its curves.
        alone: whether the figure has no other arm. Then the curves also have different markers.
    """
    darkest = np.array(to_rgb(PALETTE[look.colour]))
    shares = np.linspace(1, _LIGHTEST, count)[::-1]
    found = []
    for place, share in enumerate(shares):
        colour = to_hex(1 - share * (1 - darkest))
        marker = place % len(MARKERS) if alone else look.marker
        style: Style = {"color": colour, "marker": MARKERS[marker]}
        if look.single:
            style |= {"linestyle": "none", "markersize": 5.0}
            style |= {"markerfacecolor": "white", "markeredgewidth": 1.1}
        else:
            style |= {"markeredgecolor": "white", "markeredgewidth": 0.5}
        found.append(style)
    return found


def guide_words(
    axes: Axes, words: str, place: tuple[float, float], coordinates: Any = "data"
) -> None:
    """Write the label of a guide line at its right end, `place`, given in `coordinates`."""
    axes.annotate(words, place, xycoords=coordinates, zorder=1, **_GUIDE_WORDS)


def _draw(axes: Axes, style: Style, marks: Sequence[Mark]) -> None:
    """Draw a curve's means and intervals, and a faint marker for every seed."""
    places, means = [mark.x for mark in marks], [mark.mean for mark in marks]
    axes.plot(places, means, zorder=4, **style)

    colour = style["color"]
    bars = [[(mark.x, end) for end in mark.ends] for mark in marks if mark.ends]
    lines = LineCollection(bars, colors=colour, linewidths=0.8, zorder=3)
    axes.add_collection(lines, autolim=False)

    faint: Style = {"linestyle": "none", "marker": "o", "markersize": 2.6, "alpha": 0.3}
    for mark in marks:
        if len(mark.seeds) > 1:
            at = [mark.x] * len(mark.seeds)
            axes.plot(
                at, mark.seeds, color=colour, markeredgewidth=0, zorder=2, **faint
            )


def scale(
    axis: XAxis | YAxis,
    values: Sequence[float],
    *,
    own: bool = False,
    linear: bool = False,
) -> None:
    """Set the scale and the ticks of an axis.

    The scale is logarithmic in two cases, if all values are positive and `linear` is False:

    - The values span a factor of ten.
    - `own` is True, and at least four values have a constant ratio, as in 1, 2, 4, 8.

    Args:
        axis: the axis.
        values: the values on the axis.
        own: whether to put ticks at the values instead of at round numbers.
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
