"""Figure 3: the metric (a) over heads, and (b) over head size with a curve for each head count."""

from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.points import Point, judged_points
from sweeper.results.table import Table

HEADS, SIZE = "model.heads", "model.head_size"
SIZES = "sizes"  # the arm of panel (b)


def draw(table: Table) -> Figure:
    """Draw the arm `sizes` in panel (b), and all other arms in panel (a)."""
    curves = panel.Curves(table, judged_points(table, table.metric), by=_heads_of_sizes)
    right = curves.of(SIZES)
    left = [curve for curve in curves.every if curve.arm != SIZES]

    figure, panels = layout.panels(2)
    curves.draw(panels[0], HEADS, left)
    curves.draw(panels[1], SIZE, right)

    def described(curve: panel.Curve) -> str:
        if curve.arm == SIZES:
            return f"(b) {curve.key:.0f} heads"
        return table.label(curve.arm)

    legend = panel.legend_by([*left, *right], described)
    return panel.finish(figure, 170, legend, curves)


def _heads_of_sizes(point: Point) -> float | None:
    return point.at(HEADS) if point.arm == SIZES else None
