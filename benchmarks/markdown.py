"""Tables in Markdown, as the documents have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the lines of a table, the last one without its end."""
    lines = ([cell.replace("|", "\\|") for cell in line] for line in (head, *rows))
    first, *rest = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([first, f"|{' --- |' * len(head)}", *rest])
