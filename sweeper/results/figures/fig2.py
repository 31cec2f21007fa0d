"""Figure 2: the metrics of fine-tuned models over the parameters of the pre-trained models.

Each metric has a panel, and each arm has a curve. The paper's metrics are SQuAD F1, SQuAD exact
match and MNLI accuracy.
"""

from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.points import measures
from sweeper.results.table import Table

X = "params_total"
_MOST_PANELS = 3


def draw(table: Table) -> Figure:
    """Draw a panel for each metric of the fine-tuning tasks, but at most _MOST_PANELS.

    If the experiment has no such tasks, draw one panel for its metric.
    """
    every = measures(table)
    shown = every[:_MOST_PANELS]
    figure, panels = layout.panels(len(shown))
    drawn = []
    for axes, measure in zip(panels, shown, strict=True):
        curves = panel.Curves(table, measure.points(table), measure.metric)
        curves.draw(axes, X)
        axes.set_ylabel(layout.plain(measure.words))
        drawn.append(curves)

    left_out = [f"Only the first {len(shown)} of {len(every)} metrics are drawn."]
    notes = left_out if len(shown) < len(every) else []
    return panel.finish(figure, 150, panel.legend_of(*drawn), *drawn, notes=notes)
