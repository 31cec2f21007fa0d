"""Figure 1: the standard heuristic and heads of a fixed size, over five measures of size.

The upper row is the paper's: (a) total parameters, (b) embedding size. The lower row shows the same
points over (c) non-embedding parameters, (d) training FLOPs, (e) heads times head size.
"""

from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.points import Point, judged_points
from sweeper.results.remarks import span
from sweeper.results.table import Table

TOP = ("params_total", "model.embedding_size")
BOTTOM = ("params_non_embedding", "flops_per_token", "width")
STANDARD = "standard"
_TOP_PT, _BOTTOM_PT = 168, 122  # heights of the rows, including axis labels


def draw(table: Table) -> Figure:
    """Draw Figure 1 from a table.

    The arm `standard` has a curve for each number of heads. Every other arm has one curve.
    """
    curves = panel.Curves(table, judged_points(table, table.metric), by=_standard_heads)
    figure = Figure(figsize=(layout.DOUBLE_COLUMN, layout.DOUBLE_COLUMN))
    heights = (_TOP_PT, _BOTTOM_PT)
    top, bottom = figure.subfigures(2, 1, squeeze=False, height_ratios=heights).flat
    panels = [*top.subplots(1, 2), *bottom.subplots(1, 3)]
    layout.name_panels(panels)
    for axes, x in zip(panels, (*TOP, *BOTTOM), strict=True):
        curves.draw(axes, x)
        axes.label_outer()  # all panels share the y-axis

    heads = span([curve.key for curve in curves.of(STANDARD)])

    def described(curve: panel.Curve) -> str:
        words = table.label(curve.arm)
        if curve.arm == STANDARD:
            words += f", {heads} heads, light to dark"
        return words

    legend = panel.legend_by(curves.every, described)
    return panel.finish(figure, _TOP_PT + _BOTTOM_PT, legend, curves)


def _standard_heads(point: Point) -> float | None:
    return point.at("model.heads") if point.arm == STANDARD else None
