"""The figures of experiments. An experiment's key `figure` names the module that draws its table.

Such a module has a function `draw(table) -> matplotlib.figure.Figure`. The code that figures share
is in results/panel.py. The style of all figures is `RC` in results/layout.py, so a user's
matplotlibrc has no effect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.results.table import Table, csv_text, publish_made
from sweeper.store import registry
from sweeper.store.code import sources
from sweeper.store.errors import Faults, UserError, collect_errors, sanitize
from sweeper.store.files import digest_of_file, read_bytes, sha256_of
from sweeper.store.plans import stem
from sweeper.store.registry import ROOT
from sweeper.store.runs import State

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("pdf", "png", "svg")


def write_figures(
    into: Path, tables: Sequence[Table], faults: Faults | None = None
) -> list[Path]:
    """Draw the tables, and return the paths of the files. Equal tables give equal bytes.

    If a table cannot be drawn, append the error to `faults`, or raise it if `faults` is None.

    Raises:
        UserError: a figure is unknown or cannot be drawn.
    """
    written = []
    for table in tables:
        with collect_errors(faults, table.name):
            drawn = _drawn(table, KINDS)
            for kind, data in drawn.items():
                path = _file(into, table, kind)
                publish_made(path, data)
                written.append(path)
            # Compute the digests from `drawn`, because another process may have replaced the files.
            digests = [hashlib.sha256(data).hexdigest() for data in drawn.values()]
            publish_made(_mark(into, table), _digest(table, digests))
    return written


def update_figures(
    outputs: Path, tables: Sequence[Table], faults: Faults | None = None
) -> None:
    """Draw the tables that have a finished run and whose figure is out of date."""
    stale = [t for t in tables if is_measured(t) and not is_drawn(outputs, t)]
    write_figures(outputs, stale, faults)


def svg_of(outputs: Path, table: Table) -> str:
    """Return the figure of a table as SVG. If its file is out of date, draw it again.

    Raises:
        UserError: the figure is unknown or cannot be drawn.
    """
    if is_drawn(outputs, table):
        return _file(outputs, table, "svg").read_bytes().decode()
    return _drawn(table, ["svg"])["svg"].decode()


def is_drawn(into: Path, table: Table) -> bool:
    """Return whether a figure's files are unchanged, and this code drew them from this table."""
    with suppress(OSError):
        files = [digest_of_file(_file(into, table, kind)) for kind in KINDS]
        return read_bytes(_mark(into, table)) == _digest(table, files).encode()
    return False


def is_measured(table: Table) -> bool:
    """Return whether at least one run of the table is done, so that there is something to draw."""
    return any(row["state"] == State.DONE for row in table.rows)


def _file(into: Path, table: Table, kind: str) -> Path:
    return into / "figures" / f"{stem(table.name)}.{kind}"


def _mark(into: Path, table: Table) -> Path:
    """Return the path of the hidden file with the `_digest` of the table that was last drawn."""
    return into / "figures" / f".{stem(table.name)}.drawn"


def _digest(table: Table, files: Sequence[str]) -> str:
    """Return a digest of a table, of the code that draws it, and of the drawn files.

    `files` has the digest of each drawn file, in the order of KINDS.
    """
    # The number of the plan is not in the figure or its caption, so leave it out.
    about = {key: own for key, own in table.provenance.items() if key != "number"}
    code = table.code and asdict(table.code)
    rows, drawn_by = csv_text(table), _code(_name(table))
    return sha256_of([table.experiment, about, code, rows, drawn_by, *files])


def _code(figure: str) -> list[Any]:
    """Return the version of the code that draws a figure.

    Returns:
        A list of two: a digest of sweeper/results, and the description of the plugin that provides
        the figure, which is {} for Headroom's own figures.
    """
    paths = sources(ROOT, ["sweeper/results"])
    files = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in paths}
    plugin = registry.made_of(registry.FIGURES, figure)
    return [registry.digest_of_source(files), plugin]


def _name(table: Table) -> str:
    """Return the name of the module that draws a table."""
    return str(table.experiment.get("figure") or "curves")


def _drawn(table: Table, kinds: Sequence[str]) -> dict[str, bytes]:
    """Draw a table and return its files by kind."""
    # Import this only now. It imports matplotlib, which takes most of a second.
    from sweeper.results.layout import rendered

    try:
        figure = figure_of(table)
        return {kind: rendered(figure, kind) for kind in kinds}
    except UserError:
        raise
    # The figure can be a user's code, which may raise any exception.
    except Exception as error:
        reason = sanitize(f"{type(error).__name__}: {error}", 120)
        name = sanitize(_name(table))
        remedy = f"correct draw(table) in {name}, or choose another figure (experiment.figure)"
        raise UserError(
            f"The figure {name} cannot be drawn ({reason}); {remedy}."
        ) from error


def figure_of(table: Table) -> Figure:
    """Return the figure of a table, drawn by the module that the experiment's `figure` names."""
    from matplotlib import rc_context

    from sweeper.results.layout import RC

    draw = registry.function(
        registry.FIGURES, _name(table), "experiment.figure", "draw"
    )
    with rc_context(RC):
        drawn: Figure = draw(table)
    return drawn
