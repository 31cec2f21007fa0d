"""The summary of a sweep in the terminal: verdicts, and the cost of deciding open claims."""

import math
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from sweeper.results.judge import verdicts_by_name
from sweeper.results.points import measures
from sweeper.results.remarks import caveats, not_learned
from sweeper.results.table import Table
from sweeper.results.verdict import Decision, Verdict
from sweeper.store.errors import Faults, sanitize

_STYLES = {str(Decision.SUPPORTED): "green", str(Decision.NOT_SUPPORTED): "red"}
_HEAD = ("experiment", "verdict", "claim", "what decides it")
_NARROWEST = 24  # the smallest width of the last column, in characters


def brief(
    tables: Sequence[Table], verdicts: Mapping[str, Sequence[Verdict]], width: int
) -> Iterator[Text]:
    """Yield the lines of `on_claims`. If there are several experiments, add their caveats.

    Experiments with the same caveat, such as missing runs, share a line. A single experiment needs
    no caveats here, because the lines of `summarise` have them.
    """
    noted = tables if len(tables) > 1 else ()
    for table in noted:
        if table.mixed_code:
            words = f"{sanitize(table.name)}: {sanitize(table.mixed_code, 2000)}"
            yield Text(words, "bold")

    yield from on_claims(tables, verdicts, width)
    notes: dict[str, list[tuple[str, str]]] = {}
    for table in noted:
        for note in (*not_learned(table), *caveats(table)):
            notes.setdefault(note.partition(":")[0], []).append((table.name, note))
    for head, own in notes.items():
        names = ", ".join(name for name, _ in own)
        words = own[0][1] if len(own) == 1 else f"{head}."
        yield Text(sanitize(f"{names}: {words}", width))


def on_claims(
    tables: Sequence[Table], verdicts: Mapping[str, Sequence[Verdict]], width: int
) -> Iterator[Text]:
    """Yield the lines of a table with the decision on each claim.

    The last column has the expected cost of deciding the claim. If there is none, it has the main
    reason for the decision. If several metrics lead to the same decision on a claim, they share a
    line. The line quotes the metric that needs the most seeds.
    """
    rows = [_HEAD]
    for table in tables:
        found: dict[tuple[str, str], list[Verdict]] = {}
        for one in verdicts[table.name]:
            found.setdefault((sanitize(one.claim, 40), one.label), []).append(one)
        for (claim, label), same in found.items():
            words = max(same, key=_seeds).brief
            if len(same) < len(measures(table)):
                words = f"{', '.join(one.measure for one in same)}: {words}"
            rows.append((sanitize(table.name), label, claim, words))
    if len(rows) == 1:
        return

    names, labels, claims = (max(len(row[place]) for row in rows) for place in range(3))
    names = min(names, width // 5)
    room = max(width - names - labels - claims - 6, _NARROWEST)
    before = ""
    for name, label, claim, words in rows:
        shown = "" if name == before else name
        line = Text(sanitize(shown, names).ljust(names + 2))
        line.append(label.ljust(labels), _STYLES.get(label, "bold"))
        yield line.append(f"  {claim.ljust(claims)}  {sanitize(words, room)}")
        before = name


def _seeds(verdict: Verdict) -> float:
    """Return the seeds per point that a decision needs: 0 if unknown, inf if no number suffices."""
    price = verdict.numbers.get("price")
    return (price["seeds"] or math.inf) if price else 0


def print_prices(
    console: Console, tables: Sequence[Table], faults: Faults | None = None
) -> None:
    """Print the present decision on each claim, and the expected cost of deciding it.

    If a table cannot be judged, append its error to `faults`, or raise it if `faults` is None.
    """
    verdicts = verdicts_by_name(tables, faults)
    judged = [table for table in tables if table.name in verdicts]
    for line in on_claims(judged, verdicts, console.width):
        console.print(line, soft_wrap=True)
