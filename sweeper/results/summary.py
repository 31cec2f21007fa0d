"""The summary of a sweep in the terminal: a line for each verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from sweeper.results.claims.evidence.verdict import Decision, Verdict
from sweeper.results.paper_tables import clipped
from sweeper.results.points import caveats, measures, not_learned
from sweeper.results.table import Table
from sweeper.store.errors import sanitize

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
    rows = [_HEAD]
    for table in tables:
        several = len(measures(table))
        found: dict[tuple[str, str], list[Verdict]] = {}
        for one in verdicts[table.name]:
            found.setdefault((sanitize(one.claim, 40), one.label), []).append(one)
        for (claim, label), same in found.items():
            most = max(same, key=lambda one: (one.numbers.get("price") or {}).get("seeds") or 0)
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
