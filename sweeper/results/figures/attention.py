"""Measures of trained heads by head size: (a) rank of the logits, (b) entropy of attention."""

from operator import methodcaller

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeper.results import panel
from sweeper.results.points import points, seed_spread
from sweeper.results.table import Table

METRICS = ("test/attention_rank", "test/attention_entropy")
HEADS, SIZE = "model.heads", "model.head_size"
_PANEL_PT = 170.0


def draw(table: Table) -> Figure:
    """Draw a table whose points differ in heads and head size."""
    measured = {metric: points(table, metric) for metric in METRICS}
    spreads = {metric: seed_spread(every) for metric, every in measured.items()}
    done = [point for point in measured[METRICS[0]] if point.values]
    arms = list(table.experiment["arms"])
    heads = sorted(
        {number for point in done if (number := point.at(HEADS)) is not None}
    )
    looks = panel.curve_looks(arms, [(arm, number) for arm in arms for number in heads])
    figure = Figure(figsize=(panel.DOUBLE_COLUMN, panel.DOUBLE_COLUMN))
    for axes, metric, letter in zip(figure.subplots(1, 2), METRICS, "ab", strict=True):
        curves = [
            (looks[one.arm, one.key], panel.marks(one.points, SIZE, spreads[metric]))
            for one in panel.split(measured[metric], by=methodcaller("at", HEADS))
            if (one.arm, one.key) in looks
        ]
        panel.fill(axes, SIZE, metric, curves, letter=letter, own=True)
        sizes = sorted({mark.x for _, curve in curves for mark in curve})
        if sizes and metric == METRICS[0]:
            limits = axes.get_ylim()
            bound = np.linspace(sizes[0], sizes[-1], 100)  # curved on a log axis
            axes.plot(bound, bound, zorder=1, **panel.GUIDE)
            axes.set_ylim(limits)
    legend = [
        *(
            (tuple(looks[arm, n].handle() for arm in arms), f"{n:.0f} heads")
            for n in heads
        ),
        ((Line2D([], [], **panel.GUIDE),), "(a) the head size, the most it can be"),
    ]
    notes = panel.notes_on(table, measured[METRICS[0]], *spreads.values())
    panel.lay_out(figure, _PANEL_PT, table, legend, notes)
    return figure
