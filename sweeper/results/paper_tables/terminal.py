"""A table in the terminal: one aligned line a point, or as a paper prints it."""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.results.paper_tables.content import has_paper_table, paper_table
from sweeper.results.paper_tables.export import as_text
from sweeper.results.points import caveats, metric_of, points
from sweeper.results.statistics.estimates import mean, sd
from sweeper.results.table import Table, label
from sweeper.store.errors import sanitize
from sweeper.store.numbers import short

HEADER = ("arm", "point", "seeds", "mean", "sd", "parameters", "match error")
_LEFT = 2  # columns of words, aligned left; the rest are numbers


def summarise(table: Table) -> list[str]:
    """The mean of each point and the standard deviation of its seeds, as lines of text."""
    if has_paper_table(table):
        head, *lines = as_text(paper_table(table))
        return [f"{sanitize(table.name, 80)}: {head}", *lines]
    metrics = {arm: metric_of(table, arm) for arm in table.experiment["arms"]}
    everything = [p for arm, metric in metrics.items() for p in points(table, metric, [arm])]
    rows: list[Sequence[str]] = [HEADER]
    for point in everything:
        values = list(point.values.values())
        own, size, error = sd(values), point.at("params_total"), point.at("match_error")
        cells = (
            clipped(point.arm, 24),
            clipped(point.name, 60),
            f"{len(values)}/{len(point.runs)}",
            f"{mean(values):.4g}" if values else "-",
            "" if own is None else f"± {own:.2g}",
            "-" if size is None else short(size),
            "" if error is None else f"{error:+.2%}",
        )
        rows.append(cells)
    words = ", ".join(dict.fromkeys(map(label, metrics.values())))
    title = f"{sanitize(table.name, 80)}: {sanitize(words, 160)}"
    return [title, *_aligned(rows), *map(sanitize, caveats(table))]


def clipped(text: str, limit: int) -> str:
    """Text on one harmless line of at most `limit` letters."""
    safe = sanitize(text)
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
