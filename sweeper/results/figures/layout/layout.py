"""What stands around the panels of a figure: title, legend, notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D

from sweeper.results.figures.layout.panel import Look
from sweeper.results.figures.layout.style import (
    FAINT_INK,
    LEGEND_PT,
    LETTER,
    SMALL_PT,
    TEXT_PT,
    plain,
    wrapped,
)
from sweeper.results.points import Point, caveats, marks_in_words, not_learned, origin
from sweeper.results.statistics.estimates import Spread
from sweeper.results.table import Table, label, number

_PAD = 3.0

Entry = tuple[tuple[Line2D, ...], str]
"""A line of a legend: what is shown, side by side, and its words."""


def lay_out(
    figure: Figure, panels: float, table: Table, legend: Sequence[Entry], notes: Sequence[str]
) -> None:
    """Writes title and legend above and notes below the panels, and gives the figure its height.

    `panels` is the height of all panels together with their axis labels, in points.
    """
    width = figure.get_figwidth() * 72
    inner = width - 2 * _PAD
    head = wrapped(plain(table.title, 120), TEXT_PT, inner, weight="bold")
    foot = [line for note in notes for line in wrapped(plain(note, 400), SMALL_PT, inner)]
    longest = max((len(words) for _, words in legend), default=0)
    columns = max(1, min(len(legend), int(inner / (LEGEND_PT * (longest * LETTER + 4)))))
    rows = -(-len(legend) // columns)
    height = panels + 4 * _PAD + len(head) * TEXT_PT * 1.3 + len(foot) * SMALL_PT * 1.3
    figure.set_size_inches(width / 72, (height + rows * LEGEND_PT * 1.65) / 72)
    pads = {"h_pad": _PAD / 72, "w_pad": _PAD / 72}
    figure.set_layout_engine("constrained", **pads)
    handles: list[Any] = [shown for shown, _ in legend]
    figure.legend(
        handles,
        [words for _, words in legend],
        loc="outside upper left",
        ncols=columns,
        borderaxespad=_PAD / LEGEND_PT,
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.0)},
        title="\n".join(head),
        title_fontproperties={"size": TEXT_PT, "weight": "bold"},
        alignment="left",
    )
    faint: dict[str, Any] = {"fontsize": SMALL_PT, "color": FAINT_INK, "ha": "left"}
    figure.supxlabel("\n".join(foot), x=_PAD / width, **faint)


def legend_of(table: Table, looks: Mapping[str, Look]) -> list[Entry]:
    return [((look.handle(),), plain(table.label(arm))) for arm, look in looks.items()]


def notes_on(table: Table, points: Sequence[Point], *spreads: Spread | None) -> list[str]:
    """What a reader must know: what the marks are, how well sizes match, what is missing."""
    marked = marks_in_words(points, *spreads)
    return [*origin(table), *marked, *_matches(table), *not_learned(table), *caveats(table)]


def _matches(table: Table) -> list[str]:
    worst: dict[str, float] = {}
    for row in table.rows:
        error = number(row.get("match_error"))
        if error is not None:
            count = str(row["match_count"])
            worst[count] = max(worst.get(count, 0.0), abs(error))
    return [
        f"Matched points have the {label(count)} of what they are matched to within {error:.2%}."
        for count, error in sorted(worst.items())
    ]
