"""What answers would cost, told before anything is trained for them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as Printed
from rich.text import Text

from sweeper.results.claims.evidence.question import Question
from sweeper.results.claims.evidence.verdict import Answer
from sweeper.results.judge import questions
from sweeper.results.statistics.price import Price
from sweeper.results.table.table import Table
from sweeper.store.errors import shown

_PILOT = (
    "No finished runs say how much seeds differ here. A pilot would: hydra.sweeper.decide=true "
    "hydra.sweeper.max_seeds=3 trains three seeds of the points that claims rest on."
)


def print_prices(console: Console, tables: Sequence[Table], effect: str | None = None) -> None:
    """Print for each claim how it stands, and what an answer is expected to take.

    Args:
        effect: a size of difference to price, as a margin is written: "1 %", or a number in the
            metric's unit; the experiment's margin where it is left out.

    Raises:
        UserError: it is no such size.
    """
    columns = ("so far", "as it looks", f"at {shown(effect or 'the margin')}", "at no difference")
    for table in tables:
        asked = [one for one in questions(table) if isinstance(one, Question)]
        if not asked:
            continue
        title = f"\n{table.name}: what answers take, in seeds a point / further runs / device hours"
        printed = Printed(box=None, pad_edge=False, header_style="bold")
        printed.add_column("claim", overflow="fold")
        for column in columns:
            printed.add_column(column, overflow="fold", min_width=13)
        measures = {one.measure for one in asked}
        for question in asked:
            printed.add_row(*map(Text, _row(question, effect, len(measures) > 1)))
        console.print(Text(title, style="bold"))
        console.print(printed)
        if not any(len(group) > 1 for one in asked for group in one.measured.groups):
            console.print(Text(_PILOT), soft_wrap=True)


def _row(question: Question, effect: str | None, several: bool) -> list[str]:
    measured, margin = question.measured, question.measured.margin
    name = f"{question.name}, {question.measure}" if several else question.name
    answer = question.verdict().verdict
    undecided = answer is Answer.UNDECIDED
    size = measured.scaled(effect) if effect else margin and margin.size
    return [
        shown(name, 120),
        str(answer),
        _words(question, question.price()) if undecided else "",
        _words(question, question.price_of(size)) if undecided and size else "",
        _words(question, question.price_of(0.0)) if undecided and margin else "",
    ]


def _words(question: Question, price: Price) -> str:
    cost = question.cost(price)
    if cost["seeds"] is None:
        return "none in sight"
    hours = "?" if cost["hours"] is None else f"{cost['hours']:.2g}"
    return f"{cost['seeds']} / {cost['runs']} / {hours}"
