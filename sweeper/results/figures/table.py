"""A paper table as a figure: what a paper would typeset, blocks of columns below each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeper.results.figures.layout.layout import lay_out
from sweeper.results.figures.layout.style import (
    DOUBLE_COLUMN,
    FAINT_INK,
    INK,
    RC,
    TEXT_PT,
    blank,
    plain,
    wrapped,
)
from sweeper.results.paper_tables.content import Block, Line, paper_table
from sweeper.results.table.table import Table

_LINE_PT, _GAP_PT, _WORDS = TEXT_PT * 1.5, TEXT_PT * 0.9, 0.28  # the words' share of the width
_PAGE_PT = 520.0  # of blocks; what is beyond them is in its text file alone
_EDGE, _FEWEST = 4.0, 3  # columns a table is laid out for, however few it has


def draw(table: Table) -> Figure:
    """The figure, from any table."""
    content = paper_table(table)
    blocks = _first(content.blocks)
    height = sum(map(_height, blocks)) + _GAP_PT
    columns = max([_FEWEST, *(len(block.head) - 1 for block in blocks)])
    with rc_context(RC):
        figure = blank(DOUBLE_COLUMN)
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set(xlim=(0, DOUBLE_COLUMN * 72), ylim=(height, 0))
        top = _GAP_PT
        for block in blocks:
            _write(axes, block, top, columns)
            top += _height(block)
        notes = [plain(note, 300) for note in content.notes]
        if len(blocks) < len(content.blocks):
            notes.append(f"The first {len(blocks)} of {len(content.blocks)} parts of the table.")
        lay_out(figure, height, title=content.title, legend=[], notes=notes)
    return figure


def _first(blocks: Sequence[Block]) -> list[Block]:
    """As many blocks as a page holds."""
    ends = list(accumulate(map(_height, blocks)))
    return [block for block, end in zip(blocks, ends, strict=True) if end <= _PAGE_PT]


def _height(block: Block) -> float:
    return _LINE_PT * (2 + len(block.lines)) + _GAP_PT


def _write(axes: Axes, block: Block, top: float, columns: int) -> None:
    """A block under a thick rule: its title, the head, a thin rule, the lines, a thick rule."""
    title: dict[str, Any] = {"va": "center", "color": FAINT_INK, "style": "italic"}
    words = wrapped(plain(block.title, 100), TEXT_PT, DOUBLE_COLUMN * 72 - 4 * _EDGE, most=1)
    axes.text(_EDGE, top + _LINE_PT / 2, " ".join(words), **title)
    for place, line in enumerate((block.head, *block.lines)):
        height = top + (place + 1.5) * _LINE_PT
        _write_line(axes, line, height, columns=columns, bold=place == 0)
    bottom = top + (len(block.lines) + 2) * _LINE_PT
    for rule, width in ((top, 0.9), (top + 2 * _LINE_PT, 0.5), (bottom, 0.9)):
        ends = [_EDGE, DOUBLE_COLUMN * 72 - _EDGE]
        axes.add_line(Line2D(ends, [rule, rule], color=INK, linewidth=width, marker="none"))


def _write_line(axes: Axes, line: Line, height: float, *, columns: int, bold: bool) -> None:
    width = DOUBLE_COLUMN * 72
    across = (1 - _WORDS) * width / columns
    set_as: dict[str, Any] = {"va": "center", "fontweight": "bold" if bold else "normal"}
    axes.text(_EDGE, height, _fitting(line[0], _WORDS * width, bold), **set_as)
    for place, cell in enumerate(line[1:], start=1):
        right = _WORDS * width + place * across - _EDGE
        axes.text(right, height, _fitting(cell, across, bold), ha="right", **set_as)


def _fitting(words: str, width: float, bold: bool) -> str:
    lines: Sequence[str] = wrapped(
        plain(words), TEXT_PT, width - 2 * _EDGE, weight="bold" if bold else "normal", most=1
    )
    return " ".join(lines)
