"""Metrics of trained heads over head size: (a) rank of the logits, (b) entropy of attention."""

from operator import methodcaller

import numpy as np
from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.points import points
from sweeper.results.table import Table

METRICS = ("test/attention_rank", "test/attention_entropy")
HEADS, SIZE = "model.heads", "model.head_size"


def draw(table: Table) -> Figure:
    """Draw a table whose points differ in heads and head size, with a curve per number of heads."""
    by_heads = methodcaller("at", HEADS)
    drawn = [
        panel.Curves(table, points(table, metric), metric, by_heads)
        for metric in METRICS
    ]
    figure, panels = layout.panels(len(METRICS))
    rank, entropy = drawn
    entropy.draw(panels[1], SIZE)
    sizes = [mark.x for own in rank.draw(panels[0], SIZE) for mark in own]
    if sizes:
        limits = panels[0].get_ylim()
        # If only one of the axes is logarithmic, this line is curved, so it needs many points.
        bound = np.linspace(min(sizes), max(sizes), 100)
        panels[0].plot(bound, bound, zorder=1, **panel.GUIDE)
        panels[0].set_ylim(limits)

    legend = panel.legend_by(rank.every, lambda curve: f"{curve.key:.0f} heads")
    bound_words = "(a) largest possible rank, the head size"
    legend.append(panel.sample(bound_words, **panel.GUIDE))
    return panel.finish(figure, 170, legend, *drawn)
