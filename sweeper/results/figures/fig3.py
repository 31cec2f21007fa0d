"""Figure 3: (a) each arm over its heads, (b) head sizes at several numbers of heads."""

from operator import methodcaller

from matplotlib import rc_context
from matplotlib.figure import Figure

from sweeper.results import panel
from sweeper.results.points import bent, points, seed_spread
from sweeper.results.table import Table

HEADS, SIZE = "model.heads", "model.head_size"
SIZES = "sizes"  # the arm of panel (b)
_PANEL_PT = 170.0


@rc_context(panel.RC)
def draw(table: Table) -> Figure:
    """Draw the arm `sizes` in panel (b) and all other arms in panel (a)."""
    everything, back = bent(points(table, table.metric))
    spread = seed_spread(everything)
    left = panel.split([p for p in everything if p.arm != SIZES], by=lambda point: None)
    right = panel.split([p for p in everything if p.arm == SIZES], by=methodcaller("at", HEADS))
    arms = table.experiment["arms"]
    looks = panel.curve_looks(arms, [(one.arm, one.key) for one in (*left, *right)])
    drawn = {
        x: [(looks[one.arm, one.key], one) for one in series]
        for x, series in ((HEADS, left), (SIZE, right))
    }
    figure = Figure(figsize=(panel.DOUBLE_COLUMN, panel.DOUBLE_COLUMN))
    panels = figure.subplots(1, 2)
    for axes, (x, own), letter in zip(panels, drawn.items(), "ab", strict=True):
        curves = [(look, panel.marks(one.points, x, spread, back)) for look, one in own]
        panel.fill(axes, x, table.metric, curves, letter=letter, own=True)
    legend = [
        *panel.legend_of(
            table, {arm: look for arm, look in panel.looks_of(arms).items() if arm != SIZES}
        ),
        *(((look.handle(),), f"(b) {one.key or 0:.0f} heads") for look, one in drawn[SIZE]),
    ]
    panel.lay_out(figure, _PANEL_PT, table, legend, panel.notes_on(table, everything, spread))
    return figure
