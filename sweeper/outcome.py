"""What came out, for a person at a terminal: tables, verdicts, files made from the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sweeper.results.claims import judge
from sweeper.results.paper_tables.terminal import summarise
from sweeper.results.table.table import read_table, stem


def print_tables(
    console: Console, outputs: Path, experiments: Sequence[str] | None = None
) -> list[Path]:
    """Write and print the table and the verdicts of each experiment; the files written."""
    verdicts = judge.judge(outputs, experiments)
    paths = [outputs / "tables" / f"{stem(name)}.csv" for name in verdicts]
    for path in paths:
        table = read_table(path)
        console.print()
        for line in summarise(table):
            console.print(Text(line), soft_wrap=True)
        for line in judge.lines(verdicts[table.name]):
            console.print(Text(line), soft_wrap=True)
    return paths


def print_everything(console: Console, outputs: Path, experiments: Sequence[str]) -> None:
    """Tables and verdicts printed, figures drawn where their table has changed, files named."""
    before = {path: path.read_bytes() for path in (outputs / "tables").glob("*.csv")}
    paths = print_tables(console, outputs, experiments)
    changed = [path for path in paths if before.get(path) != path.read_bytes()]
    console.print(Text(f"\nruns under {near(outputs / 'runs')}; made from them:"))
    printed = [file for path in paths for file in path.parent.glob(f"{path.stem}.printed.*")]
    for path in [
        *paths,
        *sorted(printed),
        *_drawn(outputs, paths, experiments, anew=bool(changed)),
    ]:
        console.print(Text(f"  {near(path)}"))


def _drawn(
    outputs: Path, tables: Sequence[Path], experiments: Sequence[str], *, anew: bool
) -> Iterator[Path]:
    figures = [
        outputs / "figures" / f"{table.stem}.{kind}"
        for table in tables
        for kind in ("pdf", "png", "svg")
    ]
    if anew or not all(path.exists() for path in figures):
        from sweeper.results.draw import write_figures

        figures = write_figures(outputs, experiments)
    yield from figures


def import_drawing() -> None:
    """Import what draws: for a sweep to do where it would have to wait anyway."""
    from sweeper.results.draw import import_figures

    import_figures()


def near(path: Path) -> str:
    """A path as short as it can be told from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
