"""The summary of a sweep in the terminal: verdicts, and the cost of deciding what is open."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table as Printed
from rich.text import Text

from sweeper.results.collect import Records
from sweeper.results.decision import Measurements, Question
from sweeper.results.judge import questions
from sweeper.results.paper_tables import clipped
from sweeper.results.points import caveats, measures, not_learned
from sweeper.results.statistics.expected_cost import Cost
from sweeper.results.table import Table
from sweeper.results.verdict import Decision, Verdict
from sweeper.store.errors import sanitize
from sweeper.store.plans import plans
from sweeper.store.runs import RunStore

_STYLES = {str(Decision.SUPPORTED): "green", str(Decision.NOT_SUPPORTED): "red"}
_HEAD = ("experiment", "verdict", "claim", "what decides it")
_NARROWEST = 24  # letters of the last column


def brief(
    tables: Sequence[Table], verdicts: Mapping[str, Sequence[Verdict]], width: int
) -> Iterator[Text]:
    """Yield a line for each claim and decision, with the cost of deciding it or its main reason.

    Measures with one decision share a line, with the words of the one that takes most seeds. Then
    a line for each caveat, such as missing runs; experiments with the same caveat share the line.
    """
    for table in tables:
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
            by = f"{', '.join(one.measure for one in same)}: " if len(same) < several else ""
            rows.append((sanitize(table.name), label, claim, f"{by}{most.brief}"))
    labels, claims = (max(len(row[place]) for row in rows) for place in (1, 2))
    names = min(max(len(row[0]) for row in rows), width // 5)
    room = max(width - names - labels - claims - 6, _NARROWEST)
    before = ""
    for name, label, claim, words in rows if len(rows) > 1 else ():
        line = Text(clipped("" if name == before else name, names).ljust(names + 2))
        line.append(label.ljust(labels), _STYLES.get(label, "bold"))
        yield line.append(f"  {claim.ljust(claims)}  {clipped(words, room)}")
        before = name
    notes: dict[str, list[tuple[str, str]]] = {}
    for table in tables:
        for note in (*not_learned(table), *caveats(table)):
            notes.setdefault(note.partition(":")[0], []).append((table.name, note))
    for head, own in notes.items():
        of, words = ", ".join(name for name, _ in own), own[0][1] if len(own) == 1 else f"{head}."
        yield Text(clipped(f"{of}: {words}", width))


def _seeds(verdict: Verdict) -> float:
    """Return the seeds a point that a decision takes: 0 if it needs none, inf if none decide it."""
    price = verdict.numbers.get("price")
    return (price["seeds"] or math.inf) if price else 0


_PILOT = (
    "No finished runs say how much seeds differ here. A pilot would: hydra.sweeper.pilot=2 trains "
    "two seeds of the points that claims rest on, and prints these costs."
)
COLUMNS = ("so far", "as it looks", "at {}", "at no difference")


def print_costs(
    console: Console, store: RunStore, tables: Sequence[Table], effect: str | None = None
) -> None:
    """Print for each claim its decision so far and the expected cost of deciding it.

    The spread between seeds is that of all finished runs of the experiment at its scale: those of
    the tables, and those of its earlier plans.

    Args:
        effect: a size of difference to compute the cost for, written like a margin: "1 %", or a
            number in the metric's unit; by default the experiment's margin.

    Raises:
        UserError: `effect` is no such size.
    """
    for table in tables:
        asked = [one for one in questions(table) if isinstance(one, Question)]
        if not asked:
            continue
        earlier = _earlier(store, table)
        for place, one in enumerate(asked):
            groups = [g for own in earlier for g in Measurements(own, one.measured.metric).groups]
            asked[place] = replace(one, others=[group for group in groups if len(group) > 1])
        title = "cost to decide each claim: seeds per point / more runs / device hours"
        printed = Printed(box=None, pad_edge=False, header_style="bold")
        printed.add_column("claim", overflow="fold")
        for column in COLUMNS:
            words = column.format(sanitize(effect or "the margin"))
            first = column == COLUMNS[0]  # a decision may be long, and then hid the claims
            printed.add_column(words, no_wrap=not first, overflow="fold")
        several = len({one.measure for one in asked}) > 1
        for one in asked:
            measured, margin = one.measured, one.measured.margin
            undecided = one.decision is Decision.UNDECIDED
            size = measured.scaled(effect) if effect else margin and margin.size
            row = [
                sanitize(f"{one.name}, {one.measure}" if several else one.name, 120),
                str(one.decision),
                _words(one, one.expected_cost()) if undecided else "",
                _words(one, one.expected_cost_at(size)) if undecided and size else "",
                _words(one, one.expected_cost_at(0.0)) if undecided and margin else "",
            ]
            printed.add_row(*map(Text, row))
        console.print(Text(f"\n{table.name}: {title}", style="bold"))
        console.print(printed)
        beside = max(sum(map(len, one.others)) for one in asked)
        if not any(map(_spread_known, asked)):
            console.print(Text(_PILOT), soft_wrap=True)
        elif beside:
            words = f"The spread between seeds is also that of {beside} seeds of earlier plans."
            console.print(Text(words), soft_wrap=True)


def _earlier(store: RunStore, table: Table) -> list[Table]:
    """Return tables of earlier plans at this scale, newest first; each run is in one only."""
    records, used = Records(store), {row["run"] for row in table.rows}
    found = []
    for plan in reversed(plans(store.outputs)):
        if table.name in plan["experiments"] and plan.get("scale") == table.provenance["scale"]:
            own = [point for point in plan["points"] if point["experiment"] == table.name]
            points = [point for point in own if point["run"] not in used]
            used |= {point["run"] for point in points}
            about = {table.name: table.experiment}
            found += records.tables({**plan, "experiments": about, "points": points})
    return found


def _spread_known(question: Question) -> bool:
    return any(len(group) > 1 for group in (*question.measured.groups, *question.others))


def _words(question: Question, cost: Cost) -> str:
    if not _spread_known(question):
        return "?"
    found = question.in_runs(cost)
    if found["seeds"] is None:
        return "none in sight"
    hours = "?" if found["hours"] is None else f"{found['hours']:.2g}"
    return f"{found['seeds']}/{found['runs']}/{hours}"
