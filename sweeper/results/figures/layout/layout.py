"""What stands around the panels of a figure: title, legend, notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D

from sweeper.results.figures.layout.style import (
    FAINT_INK,
    LEGEND_PT,
    SMALL_PT,
    TEXT_PT,
    plain,
    text_width,
    wrapped,
)
from sweeper.results.statistics.estimates import Spread
from sweeper.results.table.columns import label, number
from sweeper.results.table.points import Point, mixtures, unfinished
from sweeper.results.table.table import Table

_LINE = 1.3  # height of a line of text, in its size
_LEGEND_LINE = 1.65
_PAD = 3.0


@dataclass(frozen=True)
class Entry:
    """A line of the legend: what is shown, side by side, and its words."""

    handles: tuple[Line2D, ...]
    words: str


def lay_out(
    figure: Figure,
    panels: float,
    *,
    title: str,
    legend: Sequence[Entry],
    notes: Sequence[str],
) -> None:
    """Makes room for, and draws, the title and legend above and the notes below the panels.

    `panels` is the height of all panels together with their axis labels, in points. To be called
    before anything that needs the final layout.
    """
    width = figure.get_figwidth() * 72
    inner = width - 2 * _PAD
    head = wrapped(plain(title, 200), TEXT_PT, inner, weight="bold", most=2)
    foot = [line for note in notes for line in wrapped(note, SMALL_PT, inner)]
    columns = _columns(legend, inner)
    rows = -(-len(legend) // columns)
    above = _PAD + len(head) * TEXT_PT * _LINE
    keys = rows * LEGEND_PT * _LEGEND_LINE + (_PAD if legend else 0)
    below = 2 * _PAD + len(foot) * SMALL_PT * _LINE
    height = above + keys + panels + below
    figure.set_size_inches(width / 72, height / 72)
    for index, line in enumerate(head):
        top = height - _PAD - index * TEXT_PT * _LINE
        figure.text(_PAD / width, top / height, line, va="top", fontweight="bold")
    faint: dict[str, Any] = {"fontsize": SMALL_PT, "color": FAINT_INK}
    for index, line in enumerate(reversed(foot)):
        bottom = _PAD + index * SMALL_PT * _LINE
        figure.text(_PAD / width, bottom / height, line, va="bottom", **faint)
    if legend:
        _write(figure, legend, columns, (_PAD / width, 1 - (above + _PAD / 2) / height))
    inside = (0, below / height, 1, panels / height)
    pads = {"h_pad": _PAD / 72, "w_pad": _PAD / 72}
    figure.set_layout_engine("constrained", rect=inside, **pads)


def _write(
    figure: Figure, legend: Sequence[Entry], columns: int, corner: tuple[float, float]
) -> None:
    handles: list[Any] = [entry.handles for entry in legend]
    side_by_side = {tuple: HandlerTuple(ndivide=None, pad=0.0)}
    words = [entry.words for entry in legend]
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": corner, "ncols": columns}
    figure.legend(handles, words, handler_map=side_by_side, **place)


def notes_on(table: Table, points: Sequence[Point], *spreads: Spread | None) -> list[str]:
    """What a reader must know: what the marks are, how well sizes match, what is missing."""
    mixed = [plain(sentence, 160) for sentence in mixtures(table)]
    about = [*_marks(points, spreads), *_matches(table), *mixed, *_missing(table)]
    return [*_origin(table), *about]


def _origin(table: Table) -> list[str]:
    """A result on some text is a result on that text."""
    text, scale = table.experiment.get("text"), table.experiment.get("scale")
    return [f"Text: {plain(str(text), 200)}; {plain(str(scale), 40)} scale."] if text else []


def _marks(points: Sequence[Point], spreads: Sequence[Spread | None]) -> list[str]:
    counts = sorted({len(point.values) for point in points if point.values})
    if not counts:
        return []
    degrees = sorted({spread.df for spread in spreads if spread})
    if not degrees:
        return ["One seed per point: the spread between seeds is unknown, so there is no interval."]
    return [
        f"Mean of {_range(counts)} seeds, 95 % interval (Student's t, spread between seeds pooled "
        f"over all points: {_range(degrees)} degrees of freedom); faint: every seed."
    ]


def _range(numbers: Sequence[int]) -> str:
    """Sorted numbers in words: the only one, or the first to the last."""
    return " to ".join(str(number) for number in dict.fromkeys((numbers[0], numbers[-1])))


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


def _missing(table: Table) -> list[str]:
    reason, without, of = unfinished(table)
    return [f"{without} of {of} runs are missing: {reason}."] if without else []


def _columns(legend: Sequence[Entry], width: float) -> int:
    """As many columns as a legend can have in `width` points."""
    between = LEGEND_PT * 1.4
    each = max((text_width(entry.words, LEGEND_PT) for entry in legend), default=0.0)
    each += LEGEND_PT * 2.6 + between
    return max(1, min(len(legend), int((width + between) // each)))
