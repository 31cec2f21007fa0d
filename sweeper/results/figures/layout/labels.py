"""Words beside lines and points, where they cover nothing; what finds no place is not written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from sweeper.results.figures.layout.panel import Look
from sweeper.results.figures.layout.series import Mark, apart
from sweeper.results.figures.layout.style import SMALL_PT, plain, text_width

_LABEL_GAP = SMALL_PT * 1.2
_LEADER = 8.0  # length of the line from the edge of a panel to a label, in points
_NEAR_THE_EDGE = 0.9  # of the width of a panel
_BESIDE = (3.5, 7.0, 11.0)  # from a point to its label, in points; the nearest free place is taken
_STEP = 2.0  # how closely lines are looked at, in points
# Where a label may stand around its point, the best place first: below left, above right, ...
_DIRECTIONS = ((-1, -1), (1, 1), (1, -1), (-1, 1), (0, -1), (0, 1), (1, 0), (-1, 0))

Label = tuple[str, str, Mark]  # text, colour, where
Places = npt.NDArray[np.float64]


def ends_fit(axes: Axes, ends: Sequence[Mark], height: float) -> bool:
    """Whether every line ends near the right edge, and their labels fit in `height` points there.

    To be asked once the scales are set.
    """
    to_share = axes.transData + axes.transAxes.inverted()
    bottom = axes.get_ylim()[0]
    near = all(to_share.transform((mark.x, bottom))[0] > _NEAR_THE_EDGE for mark in ends)
    return bool(ends) and near and len(ends) * _LABEL_GAP <= height


def label_ends(axes: Axes, ends: Sequence[Label]) -> None:
    """Writes text beside the right edge, each as near to the end of its line as there is room.

    `ends_fit` must hold, and the figure must have its final size.
    """
    texts = [
        axes.annotate(
            plain(text, 20),
            (1, 0.5),
            xycoords="axes fraction",
            xytext=(_LEADER + 2, 0),
            textcoords="offset points",
            fontsize=SMALL_PT,
            va="center",
        )
        for text, _, _ in ends
    ]
    width, height = _settled(axes)
    to_share = axes.transData + axes.transAxes.inverted()
    wanted = [float(to_share.transform((mark.x, mark.mean))[1]) * height for _, _, mark in ends]
    places = apart(wanted, _LABEL_GAP, 0.0, height)
    assert places is not None, "ends_fit was not asked"
    for text, (_, colour, _), origin, place in zip(texts, ends, wanted, places, strict=True):
        text.set_position((_LEADER + 2, place - height / 2))
        xs = [1.0, 1 + _LEADER / 3 / width, 1 + _LEADER / width]
        ys = [origin / height, place / height, place / height]
        leader = Line2D(xs, ys, transform=axes.transAxes, color=colour, linewidth=0.7)
        leader.set(clip_on=False, marker="none", in_layout=False)
        axes.add_line(leader)


def label_points(
    axes: Axes, labels: Sequence[Label], drawn: Sequence[tuple[Look, Sequence[Mark]]]
) -> None:
    """Writes text near points, where it covers nothing that was `drawn`.

    The figure must have its final size.
    """
    if not labels:
        return
    width, height = _settled(axes)
    to_points = axes.transData + axes.transAxes.inverted()

    def places(pairs: Iterable[tuple[float, float]]) -> Places:
        found = np.asarray(list(pairs), dtype=np.float64).reshape(-1, 2)
        placed: Places = to_points.transform(found) * (width, height)
        return placed

    taken = np.concatenate([_covered(look, places, curve) for look, curve in drawn])
    for text, colour, mark in labels:
        size = np.array([text_width(text, SMALL_PT), SMALL_PT])
        [anchor] = places([(mark.x, mark.mean)])
        for distance, direction in product(_BESIDE, _DIRECTIONS):
            middle = anchor + np.array(direction) * (size / 2 + distance)
            low, high = middle - size / 2 - 1, middle + size / 2 + 1
            inside = (low >= 0).all() and (high <= (width, height)).all()
            if inside and not ((taken >= low) & (taken <= high)).all(axis=1).any():
                x, y = middle / (width, height)
                words = axes.text(x, y, text, transform=axes.transAxes, fontsize=SMALL_PT)
                words.set(ha="center", va="center", color=colour, in_layout=False)
                taken = np.concatenate([taken, _filled(low, high)])
                break


def _covered(
    look: Look, places: Callable[[Iterable[tuple[float, float]]], Places], curve: Sequence[Mark]
) -> Places:
    """Positions that a curve takes: its means, seeds, the ends of its intervals, its line."""
    heights = [(mark.x, y) for mark in curve for y in (*mark.seeds, *(mark.ends or ()))]
    means = places((mark.x, mark.mean) for mark in curve)
    lines = [_filled_line(a, b) for a, b in pairwise(means)] if look.line else []
    return np.concatenate([means, places(heights), *lines])


def _filled_line(start: Places, end: Places) -> Places:
    steps = max(2, int(np.hypot(*(end - start)) / _STEP))
    return np.linspace(start, end, steps)


def _filled(low: Places, high: Places) -> Places:
    xs, ys = (np.arange(a, b, _STEP) for a, b in zip(low, high, strict=True))
    return np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)


def _settled(axes: Axes) -> tuple[float, float]:
    """The width and height of a panel in points; finds the layout, once, and keeps it."""
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    box = axes.get_window_extent()
    return box.width * 72 / figure.dpi, box.height * 72 / figure.dpi
