"""The metric over head size, minus the metric of the model with the largest heads.

Each arm and sequence length n has a curve. Differences are taken for each seed before they are
averaged, so that intervals are those of the difference.

Triangles above the panel, in the colours of the curves, mark head sizes from experiment=theorem1.
There, heads of this size are the smallest that can compute a random attention matrix: n / 2 with a
causal mask (filled), n - 1 without one (white).
"""

import math
import textwrap
from dataclasses import replace

from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.figures.theorem1 import ABOVE, HEAD_SIZE, LENGTH
from sweeper.results.points import Point, judged_points
from sweeper.results.remarks import span
from sweeper.results.table import Table, label

_LABEL_LETTERS = 36  # a line of the y-axis label has at most this many characters
_BIDIRECTIONAL: layout.Style = {
    **ABOVE,
    "markeredgewidth": None,
    "markerfacecolor": "white",
}


def draw(table: Table) -> Figure:
    """Draw a table whose points differ in sequence length and head size."""
    groups: dict[tuple[str, float], list[Point]] = {}
    ordered = sorted(judged_points(table, table.metric), key=_head_size)
    for point in ordered:
        length = point.at(LENGTH)
        if length is not None:
            groups.setdefault((point.arm, length), []).append(point)

    found = [point for own in groups.values() for point in _above_largest(own)]
    curves = panel.Curves(table, found, by=lambda point: point.at(LENGTH))

    figure, [axes] = layout.panels(1)
    curves.draw(axes, HEAD_SIZE, guided=False)
    # The largest heads have no mark, because their difference is 0 by definition. Draw a line at 0,
    # and extend the x-axis to them.
    largest = [_head_size(own[-1]) for own in groups.values()]
    axes.axhline(0, zorder=1, **panel.GUIDE)
    axes.update_datalim([(size, 0) for size in largest])
    axes.autoscale_view()

    words = f"{label(table.metric)} minus that with heads of {span(largest)}"
    axes.set_ylabel("\n".join(textwrap.wrap(words, _LABEL_LETTERS)))

    low, high = axes.get_xlim()
    above = axes.get_xaxis_transform()
    for curve in curves.every:
        n, colour = curve.key, curve.style["color"]
        for place, y, marker in ((n // 2, 1.02, ABOVE), (n - 1, 1.06, _BIDIRECTIONAL)):
            if low <= place <= high:
                axes.plot([place], [y], transform=above, color=colour, **marker)

    legend = panel.legend_by_curve(curves, "n = {:.0f}".format)
    for marker, words in ((ABOVE, "n / 2"), (_BIDIRECTIONAL, "n - 1")):
        legend.append(panel.sample(words, color=layout.FAINT_INK, **marker))
    return panel.finish(figure, 170, legend, curves)


def _head_size(point: Point) -> float:
    return point.at(HEAD_SIZE) or 0.0


def _above_largest(points: list[Point]) -> list[Point]:
    """Return all points but the last, after subtracting the last point's values seed by seed.

    Seeds that the last point lacks are left out. `points` must be sorted by head size, so that the
    last point has the largest heads.
    """
    *smaller, largest = points
    return [
        replace(
            point,
            values={
                seed: point.values[seed] - largest.values[seed]
                for seed in point.values.keys() & largest.values.keys()
            },
            bounds=(-math.inf, math.inf),
        )
        for point in smaller
    ]
