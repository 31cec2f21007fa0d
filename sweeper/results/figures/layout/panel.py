"""One pair of axes: curves with their seeds and intervals, scales, labels at the ends of lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from sweeper.results.figures.layout.series import Mark
from sweeper.results.figures.layout.style import FAINT_INK, plain
from sweeper.results.figures.layout.ticks import set_scale
from sweeper.results.table.columns import label

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
        """What a legend shows of this curve."""
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


def prepare(axes: Axes, x: str, y: str, *, letter: str = "") -> None:
    """The words around a panel; its letter tells it from its neighbours."""
    axes.set_xlabel(plain(label(x)))
    axes.set_ylabel(plain(label(y)))
    if letter:
        axes.set_title(f"({letter})", loc="left", fontweight="bold", pad=4)


def scale(
    axes: Axes,
    across: Sequence[Mark],
    up: Sequence[Mark],
    *,
    room: tuple[float, float],
    own: bool = False,
) -> None:
    """Scales for the x of `across` and the heights of `up`; `room` is width and height in points.

    With `own`, the ticks of the x-axis stand at the values themselves.
    """
    if not across:
        axes.set(xticks=[], yticks=[])
        middle: dict[str, Any] = {"transform": axes.transAxes, "ha": "center", "va": "center"}
        axes.text(0.5, 0.5, "no finished run", color=FAINT_INK, **middle)
        return
    set_scale(axes.xaxis, [mark.x for mark in across], room[0], own=own)
    set_scale(axes.yaxis, _heights(up), room[1])


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
