"""The summary of a sweep in the terminal: verdicts, and the cost of deciding undecided claims."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from sweeper.results.judge import Verdicts, verdicts_by_name
from sweeper.results.points import measures
from sweeper.results.remarks import caveats, not_learned
from sweeper.results.table import Table
from sweeper.results.verdict import Decision
from sweeper.store.errors import Faults, sanitize

_STYLES = {str(Decision.SUPPORTED): "green", str(Decision.NOT_SUPPORTED): "red"}


def brief(tables: Sequence[Table], verdicts: Verdicts) -> Iterator[Text | Grid]:
    """Yield what a sweep prints last: the table of verdicts, and the caveats of its experiments.

    Experiments with the same caveat, such as missing runs, share a line. For a single experiment,
    yield no caveats, because the sweep has already printed them with `summarise`.
    """
    noted = tables if len(tables) > 1 else ()
    for table in noted:
        if table.mixed_code:
            yield Text(sanitize(f"{table.name}: {table.mixed_code}", 2000), "bold")

    if any(verdicts[table.name] for table in tables):
        yield on_claims(tables, verdicts)

    notes: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for table in noted:
        for note in (*not_learned(table), *caveats(table)):
            notes[note.partition(":")[0]].append((table.name, note))
    for head, own in notes.items():
        names = ", ".join(name for name, _ in own)
        words = own[0][1] if len(own) == 1 else f"{head}."
        yield Text(sanitize(f"{names}: {words}", 1000))


def on_claims(tables: Sequence[Table], verdicts: Verdicts) -> Grid:
    """Return a table with a row for each claim and each metric that judges it.

    The last column has the expected cost of deciding the claim, or the beginning of the verdict's
    sentence if there is no such cost.
    """
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for head in ("experiment", "verdict", "claim"):
        grid.add_column(head, no_wrap=True)
    grid.add_column("what decides it")
    for table in tables:
        by_several = len(measures(table)) > 1
        for one in verdicts[table.name]:
            asked = f"{one.claim}, {one.measure}" if by_several else one.claim
            decision = Text(one.label, _STYLES.get(one.label, "bold"))
            # Pass Text objects, because rich would interpret brackets in a string as markup.
            name, claim = Text(sanitize(table.name)), Text(sanitize(asked))
            # Cut long words at the width of the terminal. The report has the whole sentence.
            words = Text(sanitize(one.brief), no_wrap=True, overflow="ellipsis")
            grid.add_row(name, decision, claim, words)
    return grid


def print_prices(
    console: Console, tables: Sequence[Table], faults: Faults | None = None
) -> None:
    """Print the present decision on each claim, and the expected cost of deciding it.

    Print nothing if no table has claims. If a table cannot be judged, append the error to `faults`,
    or raise it if `faults` is None.
    """
    verdicts = verdicts_by_name(tables, faults)
    if any(verdicts.values()):
        judged = [table for table in tables if table.name in verdicts]
        console.print(on_claims(judged, verdicts))
