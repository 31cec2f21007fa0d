"""The summary of a sweep in the terminal: verdicts, and the cost of deciding open claims."""

import math
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table as Printed
from rich.text import Text

from sweeper.results.decision import Question
from sweeper.results.judge import decidable
from sweeper.results.paper_tables import clipped
from sweeper.results.points import measures
from sweeper.results.remarks import caveats, not_learned
from sweeper.results.table import Table
from sweeper.results.verdict import Decision, Verdict
from sweeper.store.errors import sanitize

_STYLES = {str(Decision.SUPPORTED): "green", str(Decision.NOT_SUPPORTED): "red"}
_HEAD = ("experiment", "verdict", "claim", "what decides it")
_NARROWEST = 24  # the smallest width of the last column, in characters


def brief(
    tables: Sequence[Table], verdicts: Mapping[str, Sequence[Verdict]], width: int
) -> Iterator[Text]:
    """Yield a line for each claim and decision, with the cost of deciding it or its main reason.

    Measures with the same decision share a line. It quotes the measure that needs most seeds.

    If there are several experiments, then yield a line for each caveat, such as missing runs.
    Experiments with the same caveat share a line. For a single experiment, `summarise` returns the
    caveats.
    """
    noted = tables if len(tables) > 1 else ()
    for table in noted:
        if table.mixed_code:
            words = f"{sanitize(table.name)}: {sanitize(table.mixed_code, 2000)}"
            yield Text(words, "bold")
    rows = [_HEAD]
    for table in tables:
        several = len(measures(table))
        found: dict[tuple[str, str], list[Verdict]] = {}
        for one in verdicts[table.name]:
            found.setdefault((sanitize(one.claim, 40), one.label), []).append(one)
        for (claim, label), same in found.items():
            most = max(same, key=_seeds)
            by = (
                f"{', '.join(one.measure for one in same)}: "
                if len(same) < several
                else ""
            )
            rows.append((sanitize(table.name), label, claim, f"{by}{most.brief}"))
    labels, claims = (max(len(row[place]) for row in rows) for place in (1, 2))
    name_width = min(max(len(row[0]) for row in rows), width // 5)
    room = max(width - name_width - labels - claims - 6, _NARROWEST)
    before = ""
    for name, label, claim, words in rows if len(rows) > 1 else ():
        shown = "" if name == before else name
        line = Text(clipped(shown, name_width).ljust(name_width + 2))
        line.append(label.ljust(labels), _STYLES.get(label, "bold"))
        yield line.append(f"  {claim.ljust(claims)}  {clipped(words, room)}")
        before = name
    notes: dict[str, list[tuple[str, str]]] = {}
    for table in noted:
        for note in (*not_learned(table), *caveats(table)):
            notes.setdefault(note.partition(":")[0], []).append((table.name, note))
    for head, own in notes.items():
        names = ", ".join(name for name, _ in own)
        words = own[0][1] if len(own) == 1 else f"{head}."
        yield Text(clipped(f"{names}: {words}", width))


def _seeds(verdict: Verdict) -> float:
    """Return the seeds per point in a verdict's price: 0 without a price, inf if none suffice."""
    price = verdict.numbers.get("price")
    return (price["seeds"] or math.inf) if price else 0


def print_prices(console: Console, tables: Sequence[Table]) -> None:
    """Print the present decision on each claim, and the expected cost of deciding it."""
    for table in tables:
        asked = decidable(table)
        if not asked:
            continue
        printed = Printed(
            "claim", "so far", box=None, pad_edge=False, header_style="bold"
        )
        printed.add_column("seeds per point / more runs / device hours", no_wrap=True)
        several = len({one.measure for one in asked}) > 1
        for one in asked:
            claim = sanitize(f"{one.name}, {one.measure}" if several else one.name, 120)
            printed.add_row(Text(claim), str(one.decision), _price(one))
        console.print(
            Text(f"\n{table.name}: the cost of deciding each claim", style="bold")
        )
        console.print(printed)


def _price(question: Question) -> str:
    price = question.price()
    if price is None:
        unknown = question.decision is Decision.UNDECIDED and question.fewest < 2
        return "unknown until its points have two seeds" if unknown else ""
    if price.seeds is None:
        return "no decision expected"
    hours = "?" if price.hours is None else f"{price.hours:.2g}"
    return f"{price.seeds} / {price.runs} / {hours}"
