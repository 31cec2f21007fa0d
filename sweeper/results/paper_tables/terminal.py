"""Results in the terminal: verdicts a line each, tables a line a point or as a paper has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from sweeper.results.claims.evidence.verdict import Answer, Verdict
from sweeper.results.paper_tables.content import has_paper_table, paper_table
from sweeper.results.paper_tables.export import as_text
from sweeper.results.statistics.estimates import mean, sd
from sweeper.results.table.columns import label
from sweeper.results.table.measures import measures, not_learned
from sweeper.results.table.points import caveats, metric_of, points
from sweeper.results.table.table import Table
from sweeper.store.errors import shown
from sweeper.store.numbers import short

HEADER = ("arm", "point", "seeds", "mean", "sd", "parameters", "match error")
_LEFT = 2  # columns of words, aligned left; the rest are numbers
_STYLES = {str(Answer.SUPPORTED): "green", str(Answer.NOT_SUPPORTED): "red"}
_HEAD = ("experiment", "verdict", "claim", "what decides it")
_NARROWEST = 24  # letters of what would decide a claim


def brief(
    tables: Sequence[Table], verdicts: Mapping[str, Sequence[Verdict]], width: int
) -> Iterator[Text]:
    """A line for each claim and answer: what would decide it, or what it rests on.

    Another for each thing that a reader must know, such as runs that are missing.
    """
    rows = [_HEAD, *(row for table in tables for row in _answers(table, verdicts[table.name]))]
    answers, claims = (max(len(row[place]) for row in rows) for place in (1, 2))
    names = min(max(len(row[0]) for row in rows), width // 5)
    room = max(width - names - answers - claims - 6, _NARROWEST)
    before = ""
    for name, answer, claim, told in rows:
        line = Text(_word("" if name == before else name, names).ljust(names + 2))
        line.append(answer.ljust(answers), _STYLES.get(answer, "bold"))
        yield line.append(f"  {claim.ljust(claims)}  {_word(told, room)}")
        before = name
    for table in tables:
        for note in (*not_learned(table), *caveats(table)):
            yield Text(_word(f"{table.name}: {note}", width))


def _answers(table: Table, verdicts: Sequence[Verdict]) -> Iterator[tuple[str, str, str, str]]:
    """Of each claim and answer the experiment, the answer, the claim, and words on it.

    Measures with one answer share a line, with the words of what would take most seeds.
    """
    several = len(measures(table))
    found: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault((shown(verdict.claim, 40), verdict.answer), []).append(verdict)
    for (claim, answer), own in found.items():
        most = max(own, key=lambda verdict: (verdict.numbers.get("price") or {}).get("seeds") or 0)
        by = f"{', '.join(one.measure for one in own)}: " if len(own) < several else ""
        yield shown(table.name), answer, claim, f"{by}{most.brief}"


def summarise(table: Table) -> list[str]:
    """The mean of each point and the standard deviation of its seeds, as lines of text."""
    if has_paper_table(table):
        head, *lines = as_text(paper_table(table))
        return [f"{shown(table.name, 80)}: {head}", *lines]
    metrics = {arm: metric_of(table, arm) for arm in table.experiment["arms"]}
    everything = [p for arm, metric in metrics.items() for p in points(table, metric, [arm])]
    rows: list[Sequence[str]] = [HEADER]
    for point in everything:
        values = list(point.values.values())
        own, size, error = sd(values), point.at("params_total"), point.at("match_error")
        cells = (
            _word(point.arm, 24),
            _word(point.name, 60),
            f"{len(values)}/{len(point.runs)}",
            f"{mean(values):.4g}" if values else "-",
            "" if own is None else f"± {own:.2g}",
            "-" if size is None else short(size),
            "" if error is None else f"{error:+.2%}",
        )
        rows.append(cells)
    words = ", ".join(dict.fromkeys(map(label, metrics.values())))
    title = f"{shown(table.name, 80)}: {shown(words, 160)}"
    return [title, *_aligned(rows), *map(shown, caveats(table))]


def _word(text: str, limit: int) -> str:
    safe = shown(text)
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    return [
        "  ".join(
            cell.ljust(width) if column < _LEFT else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
