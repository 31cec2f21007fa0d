"""Words beside lines and points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from sweeper.results.figures.layout.series import Mark
from sweeper.results.figures.layout.style import SMALL_PT, plain

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
