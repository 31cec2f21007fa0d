"""Figure 3: (a) each arm over its heads, (b) head sizes at several numbers of heads."""

from operator import methodcaller

from matplotlib.figure import Figure

from sweeper.results import panel
from sweeper.results.points import bent, guides, points, seed_spread
from sweeper.results.table import Table

HEADS, SIZE = "model.heads", "model.head_size"
SIZES = "sizes"  # the arm of panel (b)
_PANEL_PT = 170.0


def draw(table: Table) -> Figure:
    """Draw the arm `sizes` in panel (b) and all other arms in panel (a)."""
    everything, back = bent(points(table, table.metric), table.metric)
    spread = seed_spread(everything)
    left = panel.split([p for p in everything if p.arm != SIZES], by=lambda point: None)
    right = panel.split(
        [p for p in everything if p.arm == SIZES], by=methodcaller("at", HEADS)
    )
    arms = table.experiment["arms"]
    looks = panel.curve_looks(arms, [(one.arm, one.key) for one in (*left, *right)])
    figure = Figure(figsize=(panel.DOUBLE_COLUMN, panel.DOUBLE_COLUMN))
    axes_a, axes_b = figure.subplots(1, 2)
    lines = guides(table)
    for axes, x, series, letter in (
        (axes_a, HEADS, left, "a"),
        (axes_b, SIZE, right, "b"),
    ):
        curves = [
            (looks[one.arm, one.key], panel.marks(one.points, x, spread, back))
            for one in series
        ]
        panel.fill(axes, x, table.metric, curves, letter=letter, own=True, guides=lines)
    by_arm = {arm: look for arm, look in panel.looks_of(arms).items() if arm != SIZES}
    heads = [
        ((looks[one.arm, one.key].handle(),), f"(b) {one.key or 0:.0f} heads")
        for one in right
    ]
    legend = [*panel.legend_of(table, by_arm), *heads]
    panel.lay_out(
        figure, _PANEL_PT, table, legend, panel.notes_on(table, everything, spread)
    )
    return figure
