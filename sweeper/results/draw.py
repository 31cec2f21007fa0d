"""Stop 9 of the road: the figure of each experiment, drawn from its table.

In: the tables that results/collect.py made. Out: outputs/figures/<experiment>.pdf, .png and .svg.
Next: nothing. What an experiment calls its `figure` is a file of results/figures with a `draw`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.results.table import Table, publish_made, stem
from sweeper.store import registry
from sweeper.store.errors import Faults, UserError, collect_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_figures(into: Path, tables: Sequence[Table], faults: Faults | None = None) -> list[Path]:
    """Draws the tables; returns the files, which are the same bytes when drawn again.

    Tables that cannot be drawn are left out where there are `faults` to say so.

    Raises:
        UserError: an unknown figure.
    """
    # Importing matplotlib takes most of a second, and not every command draws.
    from sweeper.results.figures.layout.panel import rendered

    folder = into / "figures"
    written = []
    for table in tables:
        with collect_errors(faults, table.name):
            for kind, data in rendered(figure_of(table)).items():
                path = folder / f"{stem(table.name)}.{kind}"
                publish_made(path, data)
                written.append(path)
    return written


def import_figures() -> None:
    """Import every figure and what it draws with, which takes half a second."""
    import scipy.special  # noqa: F401  (for the intervals between seeds)
    from matplotlib.backend_bases import get_registered_canvas_class

    from sweeper.results.figures.layout.panel import KINDS

    for name in registry.names(registry.FIGURES):
        with suppress(UserError):  # a package's that is broken is told of where it is drawn
            registry.function(registry.FIGURES, name, "figure", "draw")
    for kind in KINDS:
        get_registered_canvas_class(kind)


def figure_of(table: Table) -> Figure:
    """The figure of a table, as the file of results/figures that it names draws it."""
    name = str(table.experiment.get("figure") or "curves")
    draw = registry.function(registry.FIGURES, name, f"experiment.figure of {table.name}", "draw")
    drawn: Figure = draw(table)
    return drawn
