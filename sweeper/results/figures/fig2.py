"""Figure 2: every metric of the fine-tuned models over the parameters of their pre-training.

Each metric has a panel (in the paper SQuAD F1, SQuAD exact match, MNLI accuracy) and each arm a
curve.
"""

from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.points import measures
from sweeper.results.table import Table

X = "params_total"
_MOST_PANELS = 3


def draw(table: Table) -> Figure:
    """Draw any table; without fine-tuning, its one metric."""
    every = measures(table)
    shown = every[:_MOST_PANELS]
    figure, panels = layout.panels(len(shown))
    drawn = []
    for axes, measure in zip(panels, shown, strict=True):
        curves = panel.Curves(table, measure.points(table), measure.metric)
        curves.draw(axes, X, words=measure.words)
        drawn.append(curves)

    left_out = [f"The first {len(shown)} of {len(every)} metrics."]
    notes = left_out if len(shown) < len(every) else []
    return panel.finish(figure, 150, panel.legend_of(*drawn), *drawn, notes=notes)
