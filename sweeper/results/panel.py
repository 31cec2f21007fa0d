"""Parts that all figures share: style, series of points, panels, labels, legend and notes."""

import math
import textwrap
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import chain, pairwise, product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib import rc_context, rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.ticker import Locator, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from sweeper.results.judge import terms_in_words
from sweeper.results.palette import MARKERS, PALETTE, arm_looks
from sweeper.results.points import (
    Point,
    Spreads,
    caveats,
    marks_in_words,
    not_learned,
    origin,
    standing,
    usual_rate,
)
from sweeper.results.table import LOGARITHMIC_FROM, Table, label, number
from sweeper.store.numbers import short

# ICML: the width of a column and of both with the gap between them, in inches.
COLUMN = 3.25
DOUBLE_COLUMN = 6.75

# The template is matplotlib's own defaults, so that a user's matplotlibrc changes no figure.
RC = rc_params_from_file(
    Path(__file__).with_name("house.mplstyle"), use_default_template=True
)
TEXT_PT, SMALL_PT, LEGEND_PT = (
    RC["font.size"],
    RC["xtick.labelsize"],
    RC["legend.fontsize"],
)
INK, FAINT_INK = RC["text.color"], RC["axes.edgecolor"]
# A dashed line that values are compared with.
GUIDE: dict[str, Any] = {"color": FAINT_INK, "linewidth": 0.7, "linestyle": (0, (4, 3))}
_GUIDE_WORDS: dict[str, Any] = {
    "xytext": (-2, 1),
    "textcoords": "offset points",
    "ha": "right",
    "va": "bottom",
    "fontsize": SMALL_PT,
    "color": FAINT_INK,
    "zorder": 1,
}
_LINE_OF_WORDS = 0.06  # of the height of a panel
LETTER = 0.54  # width of a letter in its size, on average
_TIGHT = 0.93  # of the letters that fit in a line on average
# Without the dates and versions that matplotlib would write.
_METADATA: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None, "ModDate": None},
    "png": {"Software": None},
    "svg": {"Date": None},
}


def plain(value: object, limit: int = 48) -> str:
    """Return `value` as text that can be drawn: one line, short, with letters that the font has."""
    text = str(value)
    if len(text) > limit:
        text = text[: limit - 1].rstrip() + "…"
    letters = _letters()
    return "".join(
        letter if ord(letter) in letters and letter.isprintable() else "?"
        for letter in text
    )


def wrapped(
    text: str, size: float, width: float, *, weight: str = "normal"
) -> list[str]:
    """Split `text` into lines of about `width` points at a font size of `size`."""
    if not text.strip():
        return []
    font = FontProperties(family=RC["font.sans-serif"], weight=weight)
    share = width / TextPath((0, 0), text, size=size, prop=font).get_extents().width
    letters = max(1, int(len(text) * share * (1 if share >= 1 else _TIGHT)))
    return textwrap.wrap(text, letters, break_on_hyphens=False)


def rendered(figure: Figure, kind: str) -> bytes:
    """Return the figure as a file of this kind; equal figures give equal bytes."""
    buffer = BytesIO()
    with rc_context(RC):
        figure.savefig(buffer, format=kind, metadata=_METADATA[kind])
    return buffer.getvalue()


@cache
def _letters() -> frozenset[int]:
    """Return the characters that the font of the figures has."""
    return frozenset(
        get_font(findfont(FontProperties(family=RC["font.sans-serif"]))).get_charmap()
    )


@dataclass(frozen=True)
class Mark:
    """A point in a panel: its mean over seeds, the ends of its interval, and every seed."""

    x: float
    mean: float
    ends: tuple[float, float] | None
    seeds: tuple[float, ...]
    point: Point


@dataclass(frozen=True)
class Series:
    """Points of one curve.

    Attributes:
        key: distinguishes the series of one arm, for example by the number of heads.
        arm: the arm of all points.
        points: the points with at least one finished run.
    """

    key: Hashable
    arm: str
    points: tuple[Point, ...]


def split(points: Iterable[Point], by: Callable[[Point], Hashable]) -> list[Series]:
    """Return a series for each arm and value of `by`, in the order in which they first appear."""
    groups: dict[tuple[str, Hashable], list[Point]] = {}
    for point in points:
        if point.values:
            groups.setdefault((point.arm, by(point)), []).append(point)
    return [Series(key, arm, tuple(group)) for (arm, key), group in groups.items()]


def marks(
    points: Iterable[Point],
    at: str | Callable[[Point], float | None],
    spread: Spreads,
    back: Callable[[float], float] = float,
) -> list[Mark]:
    """Return marks for the points with a place `at` the x-axis, from left to right.

    `at` is a column, or a function that returns the place of a point.
    `back` reverses the transform of `bent` values after means and intervals are computed.
    """
    found = []
    for point in points:
        x = point.at(at) if isinstance(at, str) else at(point)
        if x is not None and point.values:
            values = tuple(back(point.values[seed]) for seed in sorted(point.values))
            ends = point.interval(spread)
            drawn = ends and (back(ends[0]), back(ends[1]))
            found.append(Mark(x, back(point.mean), drawn, values, point))
    return sorted(found, key=lambda mark: (mark.x, mark.mean))


_GAP = SMALL_PT * 1.2 / 130.0  # of the height of a panel, which is about 130 points
_NEAR_THE_EDGE = 0.9  # of the width of a panel
_LEADER: dict[str, Any] = {"arrowstyle": "-", "relpos": (0.0, 0.5), "shrinkA": 1}

Label = tuple[str, str, Mark]  # text, colour, where


def label_ends(axes: Axes, ends: Sequence[Label]) -> bool:
    """Write labels beside the right edge, each near the end of its line.

    Write nothing and return False if a line ends far from the edge, or if there is no room for all.
    Set the scales first.
    """
    places = [_share(axes, mark) for _, _, mark in ends]
    if (
        min((x for x, _ in places), default=0.0) < _NEAR_THE_EDGE
        or len(ends) * _GAP > 1
    ):
        return False
    heights = apart([y for _, y in places], _GAP)
    for (text, colour, mark), place in zip(ends, heights, strict=True):
        axes.annotate(
            plain(text, 20),
            (mark.x, mark.mean),
            xytext=(1.04, place),
            textcoords="axes fraction",
            fontsize=SMALL_PT,
            va="center",
            arrowprops={"color": colour, "linewidth": 0.7, "shrinkB": 3, **_LEADER},
        )
    return True


def _figure(axes: Axes) -> Figure:
    root = axes.get_figure(root=True)
    assert root is not None
    return root


def apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Return positions from 0 to 1 near the wanted ones, in their order, at least `gap` apart."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    places = dict.fromkeys(order, 0.0)
    low, high = 0.0, 1.0
    for index in order:
        places[index] = max(wanted[index], low)
        low = places[index] + gap
    for index in reversed(order):
        places[index] = min(places[index], high)
        high = places[index] - gap
    return [places[index] for index in range(len(wanted))]


def _share(axes: Axes, mark: Mark) -> tuple[float, float]:
    """Return the place of a mark as shares of the width and height of its panel."""
    x, y = (axes.transData + axes.transAxes.inverted()).transform((mark.x, mark.mean))
    return float(x), float(y)


_LARGEST = 709.0  # its exponential is nearly the largest float
_MARGIN = 0.06  # of the span of the values, on either side
_APART = 0.085  # of the span: the least distance of two ticks
_CROWD = 40  # curves with more points have small ones
MOST_CATEGORIES = 8
_SEED_ALPHA = 0.3
_RING: dict[str, Any] = {
    "markersize": 8.0,
    "markerfacecolor": "none",
    "markeredgewidth": 0.7,
}
_NEAR = (
    0.01,
    0.05,
)  # of the width and the height: marks of two curves that cover each other
_ASIDE, _FARTHEST = (
    4.0,
    16.0,
)  # points between such curves, and between the first and the last


@dataclass(frozen=True)
class Look:
    """The style of a curve; `line` joins its points, `above` draws it over others."""

    colour: str
    marker: str = "o"
    line: bool = True
    filled: bool = True
    above: bool = False

    def handle(self) -> Line2D:
        return Line2D([], [], **self._line())

    def _line(self) -> dict[str, Any]:
        return {
            "color": self.colour,
            "linestyle": "-" if self.line else "none",
            "marker": self.marker,
            "markersize": 4.0 if self.filled else 5.0,
            "markerfacecolor": self.colour if self.filled else "white",
            "markeredgecolor": "white" if self.filled else self.colour,
            "markeredgewidth": 0.5 if self.filled else 1.1,
        }

    def draw(self, axes: Axes, marks: Sequence[Mark], aside: float = 0.0) -> None:
        """Draw the means, their intervals, and every seed as a faint marker, `aside` points."""
        order = 4 if self.above else 3
        moved = ScaledTranslation(aside / 72, 0, _figure(axes).dpi_scale_trans)
        placed: dict[str, Any] = {"transform": axes.transData + moved}
        line = self._line() | placed
        if len(marks) > _CROWD:
            line |= {"markersize": 2.0, "markeredgewidth": 0.0}
        axes.plot(
            [mark.x for mark in marks],
            [mark.mean for mark in marks],
            zorder=order,
            **line,
        )
        bars = [[(mark.x, end) for end in mark.ends] for mark in marks if mark.ends]
        ends = LineCollection(
            bars, colors=self.colour, linewidths=0.8, zorder=order - 1, **placed
        )
        axes.add_collection(ends, autolim=False)
        seeds = [
            (mark.x, value)
            for mark in marks
            if len(mark.seeds) > 1
            for value in mark.seeds
        ]
        if seeds:
            xs, ys = zip(*seeds, strict=True)
            faint: dict[str, Any] = {
                "alpha": _SEED_ALPHA,
                "markersize": 2.6,
                "markeredgewidth": 0,
            }
            axes.plot(
                xs, ys, "o", color=self.colour, zorder=order - 2, **faint, **placed
            )
        if ringed := [(mark.x, mark.mean) for mark in marks if mark.point.other_rate]:
            xs, ys = zip(*ringed, strict=True)
            axes.plot(xs, ys, "o", color=self.colour, zorder=order, **_RING, **placed)


# Share of an arm's colour in its first curve; the last curve has all of it.
_LIGHTEST = 0.4
Curve = tuple[str, Hashable]
"""A curve: its arm, and a key that distinguishes the curves of that arm."""


def looks_of(arms: Iterable[str]) -> dict[str, Look]:
    found = curve_looks(arms, [(arm, None) for arm in arms])
    return {arm: look for (arm, _), look in found.items()}


def curve_looks(arms: Iterable[str], curves: Iterable[Curve]) -> dict[Curve, Look]:
    """Return a look for each curve: the curves of an arm have shades of its colour.

    If there is only one arm, its curves have different markers too.
    """
    by_arm: dict[str, list[Curve]] = {}
    for curve in dict.fromkeys(curves):
        by_arm.setdefault(curve[0], []).append(curve)
    known = arm_looks(dict.fromkeys([*arms, *by_arm]))
    found = {}
    for arm, own in by_arm.items():
        colour, marker, single = known[arm]
        mixed = LinearSegmentedColormap.from_list("shades", ["white", PALETTE[colour]])
        for place, curve in enumerate(own):
            other = place if len(known) == 1 else marker
            share = (
                _LIGHTEST + (1 - _LIGHTEST) * place / (len(own) - 1)
                if len(own) > 1
                else 1.0
            )
            found[curve] = Look(
                to_hex(mixed(share)),
                marker=MARKERS[other % len(MARKERS)],
                line=not single,
                filled=not single,
                above=colour > 0,
            )
    return found


Curves = Sequence[tuple[Look, Sequence[Mark]]]


def fill(  # noqa: PLR0913 (all but the first four have names)
    axes: Axes,
    x: str,
    y: str,
    curves: Curves,
    *,
    letter: str = "",
    own: bool = False,
    scaled: Sequence[Mark] | None = None,
    exact: bool = False,
    guides: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Draw the curves of a panel, and label its axes with `x` and `y`.

    Args:
        letter: names the panel.
        own: put the ticks of the x-axis at the values themselves.
        scaled: the marks that the axes span; by default the drawn ones.
        exact: draw curves where they are, as without `own`; else they are moved aside if their
            marks meet.
        guides: heights by their words; each is a labelled line where it lies near the curves.
    """
    if letter:
        axes.set_title(f"({letter})", loc="left", fontweight="bold", pad=4)
    held = [mark for _, curve in curves for mark in curve] if scaled is None else scaled
    if not held:
        axes.set(xlabel=plain(label(x)), ylabel=plain(label(y)))
        empty(axes, "no finished run")
        return
    across = [mark.x for mark in held]
    _scale(axes.xaxis, label(x), across, across, own=own)
    seeds = [value for mark in held for value in mark.seeds]
    low, high = min(seeds), max(seeds)
    # Long intervals are cut off where they would flatten the curves.
    reach = (high - low) * 1.5 or abs(high) * 0.05
    floor = max(low - reach, low / 2) if low > 0 else low - reach
    ends = [end for mark in held if mark.ends for end in mark.ends]
    near = {words: at for words, at in guides.items() if floor <= at <= high + reach}
    drawn = [min(max(end, floor), high + reach) for end in ends]
    _scale(axes.yaxis, label(y), seeds, [low, high, *drawn, *near.values()])
    for at in near.values():
        axes.axhline(at, zorder=1, **GUIDE)
    for words, at in _labels(axes, near):
        across_and_up = axes.get_yaxis_transform()
        axes.annotate(words, (1, at), xycoords=across_and_up, **_GUIDE_WORDS)
    moved = _dodged(axes, curves) if own and not exact else [0.0] * len(curves)
    for (look, curve), aside in zip(curves, moved, strict=True):
        look.draw(axes, curve, aside)


def _labels(axes: Axes, heights: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the label of each guide and its height; guides that lie close share one label."""
    left = axes.get_xlim()[0]

    def share(at: float) -> float:
        inches = axes.transData.transform((left, at))
        return float(axes.transAxes.inverted().transform(inches)[1])

    groups: list[list[str]] = []
    for words in sorted(heights, key=heights.__getitem__):
        last = heights[groups[-1][-1]] if groups else -math.inf
        close = groups and share(heights[words]) - share(last) < _LINE_OF_WORDS
        groups = [*groups[:-1], [*groups[-1], words]] if close else [*groups, [words]]
    return [(", ".join(group), heights[group[-1]]) for group in groups]


def guide_curve(axes: Axes, words: str, places: Sequence[tuple[float, float]]) -> None:
    """Draw a labelled line through (x, y) places that curves are compared with."""
    axes.plot(*zip(*places, strict=True), zorder=1, **GUIDE)
    axes.annotate(words, places[-1], **_GUIDE_WORDS)


def _dodged(axes: Axes, curves: Curves) -> list[float]:
    """Return how far to the side each curve is drawn, in points, so that no two cover each other.

    Hollow marks show what is below them.
    """
    shares = [
        [_share(axes, mark) for mark in curve] if look.filled else []
        for look, curve in curves
    ]

    def meet(one: int, other: int) -> bool:
        pairs = product(shares[one], shares[other])
        return any(
            abs(a - c) < _NEAR[0] and abs(b - d) < _NEAR[1] for (a, b), (c, d) in pairs
        )

    groups: list[list[int]] = []
    for place in range(len(curves)):
        joined = [
            group for group in groups if any(meet(place, other) for other in group)
        ]
        groups = [group for group in groups if group not in joined]
        groups.append(sorted([place, *chain(*joined)]))
    found = [0.0] * len(curves)
    for group in groups:
        step = min(_ASIDE, _FARTHEST / max(1, len(group) - 1))
        for place, curve in enumerate(group):
            found[curve] = (place - (len(group) - 1) / 2) * step
    return found


def empty(axes: Axes, reason: str) -> None:
    """Write the reason why a panel shows nothing into its middle."""
    middle: dict[str, Any] = {
        "transform": axes.transAxes,
        "ha": "center",
        "va": "center",
    }
    axes.text(0.5, 0.5, reason, color=FAINT_INK, **middle)
    axes.set(xticks=[], yticks=[])


def categories(axes: Axes, words: Sequence[str]) -> None:
    """Label the places 0, 1, ... of the x-axis with words, in lines that do not meet."""
    axes.set_xlim(-0.5, len(words) - 0.5)
    shown = words if len(words) <= MOST_CATEGORIES else []
    lines = [
        textwrap.wrap(plain(word), 52 // len(shown), max_lines=4, placeholder="…")
        for word in shown
    ]
    axes.set_xticks(range(len(shown)), ["\n".join(own) for own in lines])


def _scale(
    axis: XAxis | YAxis,
    words: str,
    values: Sequence[float],
    held: Sequence[float],
    *,
    own: bool = False,
) -> None:
    """Set label, scale, limits and ticks of an axis.

    The scale suits `values`, the limits include `held`, and the ticks are a few round numbers or,
    with `own`, the values.
    """
    ordered = sorted(set(values))
    logarithmic = ordered[0] > 0 and ordered[-1] / ordered[0] >= LOGARITHMIC_FROM
    if (
        own and len(ordered) >= 4 and ordered[0] > 0
    ):  # or if each value is a multiple of the last
        ratios = [after / before for before, after in pairwise(ordered)]
        logarithmic |= all(
            math.isclose(ratio, ratios[0], rel_tol=1e-6) for ratio in ratios
        )
    axis.set_label_text(plain(f"{words} (log)" if logarithmic else words))
    low, high = min(held), max(held)
    forward, backward = (math.log, math.exp) if logarithmic else (float, float)
    start, end = forward(low), forward(high)
    # If all values are equal, any span around them will do.
    margin = (end - start) * _MARGIN or max(abs(end) * 0.1, 0.1)
    end = min(end, _LARGEST - margin) if logarithmic else end
    limits = backward(start - margin), backward(end + margin)
    locator: Locator = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
    if logarithmic:
        decade = (
            (1,)
            if high / low > 100
            else (1, 2, 5)
            if high / low > 8
            else (1, 1.5, 2, 3, 5, 7)
        )
        locator = LogLocator(subs=decade, numticks=6)
    with np.errstate(over="ignore"):  # of ticks beyond the limits
        proposed = locator.tick_values(*limits)
    round_ones = [tick for tick in proposed if limits[0] <= tick <= limits[1]]
    exact = [tick for tick in round_ones if math.isclose(tick, float(f"{tick:.4g}"))]
    if len(exact) > 1:  # else 1.5125M would read 1.512M
        round_ones = exact
    ticks: list[float] = []
    for tick in ordered if own and len(ordered) <= 12 else round_ones:
        if not ticks or forward(tick) - forward(ticks[-1]) >= (end - start) * _APART:
            ticks.append(float(tick))
    name = axis.axis_name
    axis.axes.set(
        **{f"{name}scale": "log" if logarithmic else "linear", f"{name}lim": limits}
    )
    axis.set_ticks(ticks, [short(tick) for tick in ticks])
    axis.set_minor_locator(NullLocator())


_PAD = 3.0

Entry = tuple[tuple[Line2D, ...], str]
"""A line of a legend: its handles, side by side, and its text."""


def lay_out(
    figure: Figure,
    panels: float,
    table: Table,
    legend: Sequence[Entry],
    notes: Sequence[str],
) -> None:
    """Write title and legend above the panels and notes below, and set the height of the figure.

    `panels` is the height of all panels with their axis labels, in points.
    """
    width = figure.get_figwidth() * 72
    inner = width - 2 * _PAD
    head = wrapped(plain(table.title, 120), TEXT_PT, inner, weight="bold")
    foot = [
        line for note in notes for line in wrapped(plain(note, 400), SMALL_PT, inner)
    ]
    entries = [
        "\n".join(wrapped(words, LEGEND_PT, inner - 4 * LEGEND_PT))
        for _, words in legend
    ]
    longest = max(
        (len(line) for entry in entries for line in entry.split("\n")), default=0
    )
    columns = max(
        1, min(len(legend), int(inner / (LEGEND_PT * (longest * LETTER + 4))))
    )
    lines = -(-len(legend) // columns) + sum(entry.count("\n") for entry in entries)
    height = panels + 4 * _PAD + len(head) * TEXT_PT * 1.3 + len(foot) * SMALL_PT * 1.3
    figure.set_size_inches(width / 72, (height + lines * LEGEND_PT * 1.65) / 72)
    pads = {"h_pad": _PAD / 72, "w_pad": _PAD / 72}
    figure.set_layout_engine("constrained", **pads)
    handles: list[Any] = [shown for shown, _ in legend]
    figure.legend(
        handles,
        entries,
        loc="outside upper left",
        ncols=columns,
        borderaxespad=_PAD / LEGEND_PT,
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.0)},
        title="\n".join(head),
        title_fontproperties={"size": TEXT_PT, "weight": "bold"},
        alignment="left",
    )
    faint: dict[str, Any] = {"fontsize": SMALL_PT, "color": FAINT_INK, "ha": "left"}
    figure.supxlabel("\n".join(foot), x=_PAD / width, **faint)


def legend_of(table: Table, looks: Mapping[str, Look]) -> list[Entry]:
    return [((look.handle(),), plain(table.label(arm))) for arm, look in looks.items()]


def notes_on(table: Table, points: Sequence[Point], *spreads: Spreads) -> list[str]:
    """Return notes for the reader: what the marks are, how well sizes match, what is missing."""
    worst: dict[str, float] = {}
    for row in table.rows:
        error = number(row.get("match_error"))
        if error is not None:
            count = str(row["match_count"])
            worst[count] = max(worst.get(count, 0.0), abs(error))
    matches = [
        f"Matched points have the {label(count)} of what they are matched to within "
        f"{max(math.ceil(error * 1e4) / 100, 0.01):.2f} %."
        for count, error in sorted(worst.items())
    ]
    marked = marks_in_words(points, *spreads)
    if any(point.other_rate for point in points):
        usual = usual_rate(points)
        marked.append(
            f"Ringed: with another learning rate than most points, {usual:g}."
        )
    compared = [*standing(table), *not_learned(table)]
    return [
        *origin(table),
        *marked,
        *matches,
        *compared,
        *terms_in_words(table),
        *caveats(table),
    ]
