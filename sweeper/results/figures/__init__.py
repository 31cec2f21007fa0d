"""The figure of each experiment, drawn from its table by the file that its `figure` key names.

A figure is a module with `draw(table) -> matplotlib.figure.Figure`, under the style sheet `RC` of
results/panel.py. It splits the table's points into series, draws each panel with `fill`, and adds
title, legend and notes with `lay_out`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.results.table import Table, csv_text, publish_made, stem
from sweeper.store import registry
from sweeper.store.errors import Faults, collect_errors
from sweeper.store.files import digest_of_file, read_bytes, sha256_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("pdf", "png", "svg")


def write_figures(into: Path, tables: Sequence[Table], faults: Faults | None = None) -> list[Path]:
    """Draw the tables and return the files; drawing them again gives the same bytes.

    With `faults`, a table that cannot be drawn is reported there and left out.

    Raises:
        UserError: an unknown figure.
    """
    folder = into / "figures"
    written = []
    for table in tables:
        # Imported here: it takes most of a second, and often nothing is to be drawn.
        from sweeper.results.panel import rendered

        with collect_errors(faults, table.name):
            for kind, data in rendered(figure_of(table)).items():
                path = folder / f"{stem(table.name)}.{kind}"
                publish_made(path, data)
                written.append(path)
            publish_made(folder / f".{stem(table.name)}.drawn", _digest(into, table))
    return written


def is_drawn(into: Path, table: Table) -> bool:
    """Return whether the files of a figure are as they were drawn, from this table."""
    with suppress(OSError):
        drawn = into / "figures" / f".{stem(table.name)}.drawn"
        return read_bytes(drawn) == _digest(into, table).encode()
    return False


def _digest(into: Path, table: Table) -> str:
    """Return the digest of a table and of the files of its figure."""
    paths = (into / "figures" / f"{stem(table.name)}.{kind}" for kind in KINDS)
    return sha256_of([table.experiment, csv_text(table), *map(digest_of_file, paths)])


def figure_of(table: Table) -> Figure:
    """Return the figure of a table, drawn by the file of results/figures that it names."""
    name = str(table.experiment.get("figure") or "curves")
    draw = registry.function(registry.FIGURES, name, f"experiment.figure of {table.name}", "draw")
    drawn: Figure = draw(table)
    return drawn
