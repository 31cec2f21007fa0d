"""Draws the figure of each experiment from its table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sweeper.named import named, names
from sweeper.results.collect import write_tables
from sweeper.results.table.table import Table, read_table, stem
from sweeper.store.files import make_directory, publish


def write_figures(outputs: Path, experiments: Sequence[str] | None = None) -> list[Path]:
    """Draws the experiments (all if None) from the records as they are now.

    Returns outputs/figures/<experiment>.pdf, .png and .svg; drawn again they are the same bytes.

    Raises:
        UserError: an unknown experiment or figure.
    """
    tables = [read_table(path) for path in write_tables(outputs, experiments)]
    folder = outputs / "figures"
    make_directory(folder)
    written = []
    for table in tables:
        for kind, data in files_of(table).items():
            path = folder / f"{stem(table.name)}.{kind}"
            publish(path, data)
            written.append(path)
    return written


def import_figures() -> None:
    """Import every figure and what it draws with, which takes half a second."""
    import scipy.special  # noqa: F401  (for the intervals between seeds)
    from matplotlib.backend_bases import get_registered_canvas_class

    from sweeper.results import figures
    from sweeper.results.figures.layout.style import KINDS

    names(figures, "draw")
    for kind in KINDS:
        get_registered_canvas_class(kind)


def files_of(table: Table) -> dict[str, bytes]:
    """The figure of a table as files, by suffix."""
    # Importing matplotlib takes most of a second, and not every command draws.
    from sweeper.results import figures
    from sweeper.results.figures.layout.style import rendered

    name = str(table.experiment.get("figure") or "curves")
    draw = named(figures, name, "draw", f"experiment.figure of {table.name}")
    return rendered(draw(table))
