"""The validation metric of the trial runs that tune a key, over the values of this key.

Each point of an arm, such as heads=8, has a curve. If several keys are tuned, the first one is on
the x-axis, and each point has a curve for each combination of values of the others.
"""

from dataclasses import replace

from matplotlib.figure import Figure

from sweeper.results.choices import tuned_keys
from sweeper.results.figures import curves
from sweeper.results.table import Table


def draw(table: Table) -> Figure:
    """Draw a table of trial runs."""
    keys = [*tuned_keys(table), table.experiment.get("x")]
    return curves.draw(replace(table, experiment={**table.experiment, "x": keys[0]}))
