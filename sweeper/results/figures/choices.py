"""The tuning of an experiment: the validation metric over the tuned key.

Each setting has a curve. The figure draws the table of an experiment's trials. If several keys are
tuned, the first is on the x-axis, and each combination of the others has a curve.
"""

from dataclasses import replace

from matplotlib.figure import Figure

from sweeper.results.choices import tuned_keys
from sweeper.results.figures import curves
from sweeper.results.table import Table


def draw(table: Table) -> Figure:
    """Draw a table of trials."""
    keys = [*tuned_keys(table), table.experiment.get("x")]
    return curves.draw(replace(table, experiment={**table.experiment, "x": keys[0]}))
