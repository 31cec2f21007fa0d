"""Parts that all figures share: style, series of points, panels, labels, legend and notes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.textpath import TextPath
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from sweeper.results.figures.layout.palette import MARKERS, PALETTE, arm_looks, shade
from sweeper.results.points import Point, caveats, marks_in_words, not_learned, origin
from sweeper.results.statistics.estimates import Spread, interval
from sweeper.results.table import LOGARITHMIC_FROM, Table, label, number
from sweeper.store.numbers import short

# ICML: the width of a column and of both with the gap between them, in inches.
COLUMN = 3.25
DOUBLE_COLUMN = 6.75

RC = rc_params_from_file(Path(__file__).with_name("house.mplstyle"), use_default_template=False)
TEXT_PT, SMALL_PT, LEGEND_PT = RC["font.size"], RC["xtick.labelsize"], RC["legend.fontsize"]
INK, FAINT_INK = RC["text.color"], RC["axes.edgecolor"]
LETTER = 0.54  # width of a letter in its size, on average
_TIGHT = 0.93  # of the letters that fit in a line on average

KINDS = ("pdf", "png", "svg")


def plain(value: object, limit: int = 48) -> str:
    """`value` as text that can be drawn: one line, short, only letters that the font has."""
    text = str(value)
    if len(text) > limit:
        text = text[: limit - 1].rstrip() + "…"
    letters = _letters()
    return "".join(
        letter if ord(letter) in letters and letter.isprintable() else "?" for letter in text
    )


def wrapped(text: str, size: float, width: float, *, weight: str = "normal") -> list[str]:
    """`text` in lines of about `width` points when set in `size`."""
    if not text.strip():
        return []
    font = FontProperties(family=RC["font.sans-serif"], weight=weight)
    share = width / TextPath((0, 0), text, size=size, prop=font).get_extents().width
    return textwrap.wrap(text, max(1, int(len(text) * share * (1 if share >= 1 else _TIGHT))))


def rendered(figure: Figure) -> dict[str, bytes]:
    """The figure as files, by suffix; equal figures give equal bytes, whenever they are drawn."""
    metadata = {
        "pdf": {"CreationDate": None, "ModDate": None},
        "png": {"Software": None},
        "svg": {"Date": None},
    }
    files = {}
    with mpl.rc_context(RC):
        for kind in KINDS:
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, metadata=metadata[kind])
            files[kind] = buffer.getvalue()
    return files


@cache
def _letters() -> frozenset[int]:
    """The characters that the font of the figures has."""
    return frozenset(get_font(findfont(FontProperties(family=RC["font.sans-serif"]))).get_charmap())


@dataclass(frozen=True)
class Mark:
    """A point as it is drawn: its mean over seeds, the ends of its interval, every seed."""

    x: float
    mean: float
    ends: tuple[float, float] | None
    seeds: tuple[float, ...]
    point: Point


@dataclass(frozen=True)
class Series:
    """Points that belong together.

    Attributes:
        key: what tells it from the others of its arm, for example its number of heads.
        arm: the arm it is of.
        points: those with at least one finished run.
    """

    key: Hashable
    arm: str
    points: tuple[Point, ...]


def split(points: Iterable[Point], by: Callable[[Point], Hashable]) -> list[Series]:
    """A series for each arm and each value of `by`, in the order in which they first appear."""
    groups: dict[tuple[str, Hashable], list[Point]] = {}
    for point in points:
        if point.values:
            groups.setdefault((point.arm, by(point)), []).append(point)
    return [Series(key, arm, tuple(group)) for (arm, key), group in groups.items()]


def marks(
    points: Iterable[Point],
    at: Callable[[Point], float | None],
    spread: Spread | None,
    back: Callable[[float], float] = float,
) -> list[Mark]:
    """The points that have a place `at` the x-axis, from left to right.

    `back` turns values back that were `bent` for means and intervals.
    """
    found = []
    for point in points:
        x = at(point)
        if x is not None and point.values:
            known = point.estimate(spread)
            values = tuple(back(point.values[seed]) for seed in sorted(point.values))
            ends = interval(known)
            drawn = ends and (back(ends[0]), back(ends[1]))
            found.append(Mark(x, back(known.mean), drawn, values, point))
    return sorted(found, key=lambda mark: (mark.x, mark.mean))


_GAP = SMALL_PT * 1.2 / 130.0  # of the height of a panel, which is about 130 points
_NEAR_THE_EDGE, _ROOM_TO_THE_RIGHT = 0.9, 0.75  # of the width of a panel
_LEADER: dict[str, Any] = {"arrowstyle": "-", "relpos": (0.0, 0.5), "shrinkA": 1}
_BESIDE = 4.5  # points from a mark to its label

Label = tuple[str, str, Mark]  # text, colour, where


def label_ends(axes: Axes, ends: Sequence[Label]) -> bool:
    """Writes text beside the right edge, each as near to the end of its line as there is room.

    Nothing is written, and False returned, unless every line ends near the edge and there is room
    for all. To be called once the scales are set.
    """
    places = [_share(axes, mark) for _, _, mark in ends]
    if min((x for x, _ in places), default=0.0) < _NEAR_THE_EDGE or len(ends) * _GAP > 1:
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


def label_point(axes: Axes, label: Label, side: int = 1) -> None:
    """Writes text right of and above a mark; left of and below it with `side` -1 or near the edge.

    To be called once the scales are set.
    """
    text, colour, mark = label
    side = side if _share(axes, mark)[0] < _ROOM_TO_THE_RIGHT else -1
    axes.annotate(
        plain(text, 20),
        (mark.x, mark.mean),
        xytext=(_BESIDE * side, _BESIDE * side),
        textcoords="offset points",
        fontsize=SMALL_PT,
        color=colour,
        ha="left" if side > 0 else "right",
        va="bottom" if side > 0 else "top",
        path_effects=[withStroke(linewidth=2, foreground="white")],
        zorder=2,  # data go over words
    )


def apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Positions from 0 to 1 near the wanted ones, in their order, at least `gap` apart."""
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
    """Where a mark lies, as shares of the width and the height of its panel."""
    x, y = (axes.transData + axes.transAxes.inverted()).transform((mark.x, mark.mean))
    return float(x), float(y)


_MARGIN = 0.06  # of the span of the values, on either side
_APART = 0.085  # of the span: how far two ticks stand from each other at least
_CROWD = 40  # points of one curve, from which on they are small
_MOST_CATEGORIES = 8
_SEED_ALPHA = 0.3


@dataclass(frozen=True)
class Look:
    """How a curve is drawn; `line` is whether its points are joined."""

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

    def draw(self, axes: Axes, marks: Sequence[Mark]) -> None:
        """Draws the means, their intervals, and every seed as a faint marker."""
        order = 4 if self.above else 3
        line = self._line()
        if len(marks) > _CROWD:
            line |= {"markersize": 2.0, "markeredgewidth": 0.0}
        axes.plot([mark.x for mark in marks], [mark.mean for mark in marks], zorder=order, **line)
        bars = [[(mark.x, end) for end in mark.ends] for mark in marks if mark.ends]
        ends = LineCollection(bars, colors=self.colour, linewidths=0.8, zorder=order - 1)
        axes.add_collection(ends, autolim=False)
        seeds = [(mark.x, value) for mark in marks if len(mark.seeds) > 1 for value in mark.seeds]
        if seeds:
            xs, ys = zip(*seeds, strict=True)
            faint: dict[str, Any] = {"alpha": _SEED_ALPHA, "markersize": 2.6, "markeredgewidth": 0}
            axes.plot(xs, ys, "o", color=self.colour, zorder=order - 2, **faint)


Curve = tuple[str, Hashable]
"""A curve by its arm, and by what tells it from that arm's others."""


def looks_of(arms: Iterable[str]) -> dict[str, Look]:
    found = curve_looks(arms, [(arm, None) for arm in arms])
    return {arm: look for (arm, _), look in found.items()}


def curve_looks(arms: Iterable[str], curves: Iterable[Curve]) -> dict[Curve, Look]:
    """A look for each curve: that of its arm; those of one arm in shades of its colour.

    Where no arm has to be told from another, they also have markers of their own.
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
            found[curve] = Look(
                to_hex(mixed(shade(place, len(own)))),
                marker=MARKERS[other % len(MARKERS)],
                line=not single,
                filled=not single,
                above=colour > 0,
            )
    return found


Curves = Sequence[tuple[Look, Sequence[Mark]]]


def fill(
    axes: Axes,
    x: str,
    y: str,
    curves: Curves,
    *,
    letter: str = "",
    own: bool = False,
    scaled: Sequence[Mark] | None = None,
) -> None:
    """Draws the curves of a panel over the words for `x` and `y`.

    Its letter tells it from its neighbours. With `own`, the ticks of the x-axis stand at the values
    themselves. `scaled` are the marks that the scales have to hold, if not just those drawn.
    """
    if letter:
        axes.set_title(f"({letter})", loc="left", fontweight="bold", pad=4)
    held = [mark for _, curve in curves for mark in curve] if scaled is None else scaled
    if not held:
        axes.set(xticks=[], yticks=[], xlabel=plain(label(x)), ylabel=plain(label(y)))
        middle: dict[str, Any] = {"transform": axes.transAxes, "ha": "center", "va": "center"}
        axes.text(0.5, 0.5, "no finished run", color=FAINT_INK, **middle)
        return
    across = [mark.x for mark in held]
    _scale(axes.xaxis, label(x), across, across, own=own)
    _scale(axes.yaxis, label(y), [value for mark in held for value in mark.seeds], _heights(held))
    for look, curve in curves:
        look.draw(axes, curve)


def categories(axes: Axes, words: Sequence[str]) -> None:
    """An x-axis for words, at 0, 1, ..."""
    axes.set_xlim(-0.5, len(words) - 0.5)
    shown = words if len(words) <= _MOST_CATEGORIES else []
    axes.set_xticks(range(len(shown)), [plain(word, 60 // len(shown)) for word in shown])


def _heights(marks: Sequence[Mark]) -> list[float]:
    """What the y-axis spans: every seed, and intervals as far as they do not flatten the curves."""
    seeds = [value for mark in marks for value in mark.seeds]
    low, high = min(seeds), max(seeds)
    reach = (high - low) * 1.5 or abs(high) * 0.05
    floor = max(low - reach, low / 2) if low > 0 else low - reach
    ends = [end for mark in marks if mark.ends for end in mark.ends]
    return [low, high, *(min(max(end, floor), high + reach) for end in ends)]


def _scale(
    axis: XAxis | YAxis,
    words: str,
    values: Sequence[float],
    held: Sequence[float],
    *,
    own: bool = False,
) -> None:
    """Gives `axis` its words, the scale for `values`, limits that hold `held`, and ticks.

    The ticks are a few round ones, or the values' own.
    """
    wide = min(values) > 0 and max(values) / min(values) >= LOGARITHMIC_FROM
    logarithmic = wide or (own and _by_factors(values))
    axis.set_label_text(plain(f"{words} (log)" if logarithmic else words))
    low, high = min(held), max(held)
    forward, backward = (math.log, math.exp) if logarithmic else (float, float)
    start, end = forward(low), forward(high)
    # All values equal: any span will do that keeps them in the middle.
    margin = (end - start) * _MARGIN or max(abs(end) * 0.1, 0.1)
    limits = backward(start - margin), backward(end + margin)
    locator = LogLocator(subs=_subs(high / low), numticks=6) if logarithmic else _LINEAR
    round_ones = [tick for tick in locator.tick_values(*limits) if limits[0] <= tick <= limits[1]]
    ticks: list[float] = []
    for tick in sorted(set(values)) if own and len(set(values)) <= 12 else round_ones:
        if not ticks or forward(tick) - forward(ticks[-1]) >= (end - start) * _APART:
            ticks.append(float(tick))
    name = axis.axis_name
    axis.axes.set(**{f"{name}scale": "log" if logarithmic else "linear", f"{name}lim": limits})
    axis.set_ticks(ticks, [short(tick) for tick in ticks])
    axis.set_minor_locator(NullLocator())


def _by_factors(values: Sequence[float]) -> bool:
    """Whether there are four values and more, each as many times larger than the one before."""
    ordered = sorted(set(values))
    if len(ordered) < 4 or ordered[0] <= 0:
        return False
    ratio = ordered[1] / ordered[0]
    return all(math.isclose(b / a, ratio, rel_tol=1e-6) for a, b in pairwise(ordered))


_LINEAR = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])


def _subs(ratio: float) -> tuple[float, ...]:
    """Where ticks stand in a decade: the closer the fewer decades there are."""
    if ratio > 100:
        return (1,)
    return (1, 2, 5) if ratio > 8 else (1, 1.5, 2, 3, 5, 7)


_PAD = 3.0

Entry = tuple[tuple[Line2D, ...], str]
"""A line of a legend: what is shown, side by side, and its words."""


def lay_out(
    figure: Figure, panels: float, table: Table, legend: Sequence[Entry], notes: Sequence[str]
) -> None:
    """Writes title and legend above and notes below the panels, and gives the figure its height.

    `panels` is the height of all panels together with their axis labels, in points.
    """
    width = figure.get_figwidth() * 72
    inner = width - 2 * _PAD
    head = wrapped(plain(table.title, 120), TEXT_PT, inner, weight="bold")
    foot = [line for note in notes for line in wrapped(plain(note, 400), SMALL_PT, inner)]
    longest = max((len(words) for _, words in legend), default=0)
    columns = max(1, min(len(legend), int(inner / (LEGEND_PT * (longest * LETTER + 4)))))
    rows = -(-len(legend) // columns)
    height = panels + 4 * _PAD + len(head) * TEXT_PT * 1.3 + len(foot) * SMALL_PT * 1.3
    figure.set_size_inches(width / 72, (height + rows * LEGEND_PT * 1.65) / 72)
    pads = {"h_pad": _PAD / 72, "w_pad": _PAD / 72}
    figure.set_layout_engine("constrained", **pads)
    handles: list[Any] = [shown for shown, _ in legend]
    figure.legend(
        handles,
        [words for _, words in legend],
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


def notes_on(table: Table, points: Sequence[Point], *spreads: Spread | None) -> list[str]:
    """What a reader must know: what the marks are, how well sizes match, what is missing."""
    marked = marks_in_words(points, *spreads)
    return [*origin(table), *marked, *_matches(table), *not_learned(table), *caveats(table)]


def _matches(table: Table) -> list[str]:
    worst: dict[str, float] = {}
    for row in table.rows:
        error = number(row.get("match_error"))
        if error is not None:
            count = str(row["match_count"])
            worst[count] = max(worst.get(count, 0.0), abs(error))
    return [
        f"Matched points have the {label(count)} of what they are matched to within {error:.2%}."
        for count, error in sorted(worst.items())
    ]
