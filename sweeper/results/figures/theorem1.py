"""Theorem 1, measured: the error of a head that fits an n x n attention matrix, over head size / n.

Each kind of mask has a panel, and each n has a curve. A ring marks the measured knee of each curve.
Vertical lines mark head size n, as in the theorem, and n / 2. Triangles mark n - 1.

While heads are too small, the error falls by a small factor from one size to the next. Once a head
is large enough, only the error of gradient descent remains, which is orders of magnitude smaller.
So means and intervals are computed from logarithms. The knee is the first head size whose error is
below a tenth of the error at the size before. The size with the largest fall would be a less
reliable definition, because gradient descent is slowest at the knee.
"""

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.points import Point, judged_points
from sweeper.results.table import Table

COLLAPSE = 10.0  # at a knee, the error falls by more than this factor
LENGTH, HEAD_SIZE = "task.sequence_length", "model.head_size"
ACROSS = "head size / n"
_GUIDES = {1.0: "n", 0.5: "n / 2"}
ABOVE: layout.Style = {
    "marker": "v",
    "markersize": 5.0,
    "markeredgewidth": 0.0,
    "linestyle": "none",
    "clip_on": False,
}
_RING: layout.Style = {
    "color": layout.INK,
    "marker": "o",
    "markersize": 9.0,
    "markerfacecolor": "none",
    "linestyle": "none",
}


def draw(table: Table) -> Figure:
    """Draw a table whose points differ in sequence length and head size."""
    judged = judged_points(table, table.metric)
    every = [
        point
        for point in judged
        if point.at(LENGTH) and min(point.values.values(), default=0) > 0
    ]
    curves = panel.Curves(table, every, by=lambda point: point.at(LENGTH))
    arms = list(dict.fromkeys(point.arm for point in judged)) or curves.arms
    figure, panels = layout.panels(len(arms))
    knees, heights = list[str](), list[float]()
    for axes, arm in zip(panels, arms, strict=True):
        own = curves.of(arm)
        marks = curves.draw(axes, ACROSS, own, at=share_of_length)
        axes.set_title(layout.plain(table.label(arm), 24), pad=14)
        if not own:
            continue
        axes.set(xscale="linear", xlabel=ACROSS, xlim=(0, 1.06))
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        heights += axes.get_ylim()

        above = axes.get_xaxis_transform()
        for place, words in _GUIDES.items():
            axes.axvline(place, zorder=1, **panel.GUIDE)
            axes.text(place, 1.02, words, transform=above, **layout.FAINT)
        letter = axes.get_title(loc="left")
        for curve, own_marks in zip(own, marks, strict=True):
            n, colour = curve.key, curve.style["color"]
            axes.plot([(n - 1) / n], [1], transform=above, color=colour, **ABOVE)
            knee = knee_of(own_marks)
            if knee:
                axes.plot(knee.x, knee.mean, zorder=5, **_RING)
                size = knee.point.at(HEAD_SIZE)
                knees.append(f"{letter} {size:.0f} for n = {n:.0f}".strip())

    for axes in panels if heights else ():
        # Give all panels the same y-axis, so that readers can compare them.
        axes.set_ylim(min(heights), max(heights))
    legend = panel.legend_by(curves.every, lambda curve: f"n = {curve.key:.0f}")
    legend.append(panel.sample("measured knee", **_RING))
    legend.append(panel.sample("n - 1", color=layout.FAINT_INK, **ABOVE))

    words = f"Head sizes of the measured knees: {', '.join(knees)}."
    return panel.finish(figure, 180, legend, curves, notes=[words] if knees else [])


def share_of_length(point: Point) -> float:
    """Return the head size, divided by the sequence length n."""
    return (point.at(HEAD_SIZE) or 0.0) / (point.at(LENGTH) or 1.0)


def knee_of(curve: Sequence[panel.Mark]) -> panel.Mark | None:
    """Return the first mark that is a knee, or None.

    At a knee, the error falls by more than a factor of COLLAPSE from the mark before, while the
    head size grows by 1.
    """
    for before, mark in pairwise(curve):
        sizes = [one.point.at(HEAD_SIZE) or 0.0 for one in (before, mark)]
        if sizes[1] - sizes[0] == 1 and before.mean / mark.mean > COLLAPSE:
            return mark
    return None
