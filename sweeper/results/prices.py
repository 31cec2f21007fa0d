"""What answers would cost, told before anything is trained for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table as Printed
from rich.text import Text

from sweeper.results.claims.evidence.decision import Measurements, Question
from sweeper.results.claims.evidence.verdict import Answer
from sweeper.results.collect import Records
from sweeper.results.judge import questions
from sweeper.results.statistics.expected_cost import Price
from sweeper.results.table import Table
from sweeper.store.errors import sanitize
from sweeper.store.plans import plans
from sweeper.store.runs import RunStore

_PILOT = (
    "No finished runs say how much seeds differ here. A pilot would: hydra.sweeper.pilot=2 trains "
    "two seeds of the points that claims rest on, and prints these prices."
)
COLUMNS = ("so far", "as it looks", "at {}", "at no difference")


def print_prices(
    console: Console, store: RunStore, tables: Sequence[Table], effect: str | None = None
) -> None:
    """Print for each claim how it stands, and what an answer is expected to take.

    The spread between seeds is that of all finished runs of the experiment at its scale: those of
    the tables, and those that earlier plans of it have trained besides.

    Args:
        effect: a size of difference to price, as a margin is written: "1 %", or a number in the
            metric's unit; the experiment's margin where it is left out.

    Raises:
        UserError: it is no such size.
    """
    for table in tables:
        asked = [one for one in questions(table) if isinstance(one, Question)]
        if not asked:
            continue
        earlier = _earlier(store, table)
        asked = [replace(one, others=_others(earlier, one.measured.metric)) for one in asked]
        title = f"\n{table.name}: what answers take, in seeds a point/further runs/device hours"
        printed = Printed(box=None, pad_edge=False, header_style="bold")
        printed.add_column("claim", overflow="fold")
        for column in COLUMNS:
            printed.add_column(column.format(sanitize(effect or "the margin")), no_wrap=True)
        measures = {one.measure for one in asked}
        for question in asked:
            printed.add_row(*map(Text, _row(question, effect, len(measures) > 1)))
        console.print(Text(title, style="bold"))
        console.print(printed)
        for line in _basis(asked):
            console.print(Text(line), soft_wrap=True)


def _earlier(store: RunStore, table: Table) -> list[Table]:
    """What earlier plans of an experiment at its scale have that a table has not, newest first."""
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


def _others(tables: Sequence[Table], metric: str) -> list[list[float]]:
    groups = [group for table in tables for group in Measurements(table, metric).groups]
    return [group for group in groups if len(group) > 1]


def _basis(asked: Sequence[Question]) -> list[str]:
    """What the spread between seeds is known by, where that is not the table's runs alone."""
    if not any(map(_spread_known, asked)):
        return [_PILOT]
    beside = max(sum(map(len, one.others)) for one in asked)
    words = f"The spread between seeds is also that of {beside} seeds of earlier plans."
    return [words] if beside else []


def _spread_known(question: Question) -> bool:
    return any(len(group) > 1 for group in (*question.measured.groups, *question.others))


def _row(question: Question, effect: str | None, several: bool) -> list[str]:
    measured, margin = question.measured, question.measured.margin
    name = f"{question.name}, {question.measure}" if several else question.name
    answer = question.verdict().verdict
    undecided = answer is Answer.UNDECIDED
    size = measured.scaled(effect) if effect else margin and margin.size
    return [
        sanitize(name, 120),
        str(answer),
        _words(question, question.price()) if undecided else "",
        _words(question, question.price_of(size)) if undecided and size else "",
        _words(question, question.price_of(0.0)) if undecided and margin else "",
    ]


def _words(question: Question, price: Price) -> str:
    if not _spread_known(question):
        return "?"
    cost = question.cost(price)
    if cost["seeds"] is None:
        return "none in sight"
    hours = "?" if cost["hours"] is None else f"{cost['hours']:.2g}"
    return f"{cost['seeds']}/{cost['runs']}/{hours}"
