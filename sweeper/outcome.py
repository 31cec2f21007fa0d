"""What came out, for a person at a terminal: tables, verdicts, files made from the records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sweeper.results.claims.evidence.verdict import Verdict
from sweeper.results.collect import write_tables
from sweeper.results.judge import Verdicts, judge, lines
from sweeper.results.paper_tables.terminal import summarise
from sweeper.results.table.table import Table, exported
from sweeper.store.errors import Faults, kept


def collect_and_judge(
    outputs: Path,
    experiments: Sequence[str] | None,
    to: Path | None = None,
    faults: Faults | None = None,
) -> tuple[list[Table], Verdicts]:
    """The tables of the experiments (all if none is named) and the verdicts on each, by its name.

    Both are also written to tables/ below `to`, or below `outputs`. Those that cannot be judged are
    left out where there are `faults` to say so.
    """
    verdicts: dict[str, Sequence[Verdict]] = {}
    tables = write_tables(outputs, experiments, to, faults)
    for table in tables:
        with kept(faults, table.name):
            verdicts |= judge(to or outputs, [table])
    return [table for table in tables if table.name in verdicts], verdicts


def print_tables(
    console: Console, outputs: Path, tables: Sequence[Table], verdicts: Verdicts
) -> list[Path]:
    """Print each table and the verdicts on it; the files that hold the tables."""
    for table in tables:
        console.print()
        for line in (*summarise(table), *lines(verdicts[table.name])):
            console.print(Text(line), soft_wrap=True)
    return [exported(outputs, table) for table in tables]


def print_everything(console: Console, outputs: Path, experiments: Sequence[str]) -> None:
    """Tables and verdicts printed, figures drawn where their table has changed, files named."""
    before = {path: path.read_bytes() for path in (outputs / "tables").glob("*.csv")}
    faults = Faults()
    tables, verdicts = collect_and_judge(outputs, experiments, outputs, faults)
    paths = print_tables(console, outputs, tables, verdicts)
    figures = [
        outputs / "figures" / f"{path.stem}.{kind}"
        for path in paths
        for kind in ("pdf", "png", "svg")
    ]
    same = all(before.get(path) == path.read_bytes() for path in paths)
    if not (same and all(path.exists() for path in figures)):
        from sweeper.results.draw import write_figures

        write_figures(outputs, tables)
    for fault in faults:
        console.print(Text(str(fault)), soft_wrap=True)
    console.print(Text(f"\nruns under {relative_path(outputs / 'runs')}; made from them:"))
    of_papers = (file for path in paths for file in path.parent.glob(f"{path.stem}.printed.*"))
    for path in [*paths, *sorted(of_papers), *figures]:
        console.print(Text(f"  {relative_path(path)}"))


def relative_path(path: Path) -> str:
    """A path as short as it can be told from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (OSError, ValueError):  # nobody is anywhere once the folder is deleted; or elsewhere
        return str(path)
