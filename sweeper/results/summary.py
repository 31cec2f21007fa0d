"""The end of a sweep in the terminal: a line for each verdict, with what would decide it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from sweeper.results.claims.evidence.verdict import Answer, Verdict
from sweeper.results.paper_tables import clipped
from sweeper.results.points import caveats, measures, not_learned
from sweeper.results.table import Table
from sweeper.store.errors import sanitize

_STYLES = {str(Answer.SUPPORTED): "green", str(Answer.NOT_SUPPORTED): "red"}
_HEAD = ("experiment", "verdict", "claim", "what decides it")
_NARROWEST = 24  # letters of what would decide a claim


def brief(
    tables: Sequence[Table], verdicts: Mapping[str, Sequence[Verdict]], width: int
) -> Iterator[Text]:
    """A line for each claim and answer: what would decide it, or what it rests on.

    Another for each thing that a reader must know, such as runs that are missing; experiments that
    share one share the line.
    """
    rows = [_HEAD, *(row for table in tables for row in _answers(table, verdicts[table.name]))]
    answers, claims = (max(len(row[place]) for row in rows) for place in (1, 2))
    names = min(max(len(row[0]) for row in rows), width // 5)
    room = max(width - names - answers - claims - 6, _NARROWEST)
    before = ""
    for name, answer, claim, told in rows if len(rows) > 1 else ():
        line = Text(clipped("" if name == before else name, names).ljust(names + 2))
        line.append(answer.ljust(answers), _STYLES.get(answer, "bold"))
        yield line.append(f"  {claim.ljust(claims)}  {clipped(told, room)}")
        before = name
    notes: dict[str, list[tuple[str, str]]] = {}
    for table in tables:
        for note in (*not_learned(table), *caveats(table)):
            notes.setdefault(note.partition(":")[0], []).append((table.name, note))
    for head, own in notes.items():
        of, told = ", ".join(name for name, _ in own), own[0][1] if len(own) == 1 else f"{head}."
        yield Text(clipped(f"{of}: {told}", width))


def _answers(table: Table, verdicts: Sequence[Verdict]) -> Iterator[tuple[str, str, str, str]]:
    """Of each claim and answer the experiment, the answer, the claim, and words on it.

    Measures with one answer share a line, with the words of what would take most seeds.
    """
    several = len(measures(table))
    found: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault((sanitize(verdict.claim, 40), verdict.answer), []).append(verdict)
    for (claim, answer), own in found.items():
        most = max(own, key=lambda verdict: (verdict.numbers.get("price") or {}).get("seeds") or 0)
        by = f"{', '.join(one.measure for one in own)}: " if len(own) < several else ""
        yield sanitize(table.name), answer, claim, f"{by}{most.brief}"
