"""A paper table as a figure, with blocks of columns below each other."""

from typing import Any

from matplotlib.figure import Figure

from sweeper.results import panel
from sweeper.results.paper_tables import paper_table
from sweeper.results.table import Table

_LINE_PT, _GAP_PT = panel.TEXT_PT * 1.5, panel.TEXT_PT * 0.9
_WORDS = 0.28  # the words' share of the width
_WIDTH_PT = panel.DOUBLE_COLUMN * 72 - 14
_PAGE_PT = 520.0  # height of all blocks; further blocks are in the text file only
_FEWEST = 3  # columns that the layout has room for, even if the table has fewer


def draw(table: Table) -> Figure:
    content = paper_table(table)
    figure = Figure(figsize=(panel.DOUBLE_COLUMN, panel.DOUBLE_COLUMN))
    axes = figure.add_subplot()
    columns = max([_FEWEST, *(len(block.head) - 1 for block in content.blocks)])
    across = (1 - _WORDS) * _WIDTH_PT / columns
    letters = across / (panel.TEXT_PT * panel.LETTER)
    cells = [
        cell for block in content.blocks for line in block.lines for cell in line[1:]
    ]
    longest = max(map(len, cells), default=1)
    share = min(
        1.0, letters / 1.1 / longest
    )  # a number is never cut, but all are smaller
    italic: dict[str, Any] = {
        "va": "center",
        "color": panel.FAINT_INK,
        "style": "italic",
    }
    drawn, top = 0, _GAP_PT
    for block in content.blocks:
        end = top + _LINE_PT * (2 + len(block.lines))
        if end + _GAP_PT > _PAGE_PT:
            break
        axes.text(0, top + _LINE_PT / 2, panel.plain(block.title, 90), **italic)
        for place, line in enumerate((block.head, *block.lines)):
            y = top + (place + 1.5) * _LINE_PT
            upright: dict[str, Any] = {
                "va": "center",
                "fontweight": "normal" if place else "bold",
            }
            axes.text(0, y, panel.plain(line[0], 30), **upright)
            upright |= {"ha": "right", "fontsize": panel.TEXT_PT * share}
            most = (
                longest if place else int(letters / share / 1.3)
            )  # bold letters are wider
            for column, cell in enumerate(line[1:], start=1):
                right = _WORDS * _WIDTH_PT + column * across
                axes.text(right, y, panel.plain(cell, most), **upright)
        for y, width in ((top, 0.9), (top + 2 * _LINE_PT, 0.5), (end, 0.9)):
            axes.plot(
                [0, _WIDTH_PT], [y, y], color=panel.INK, linewidth=width, marker="none"
            )
        drawn, top = drawn + 1, end + _GAP_PT
    axes.set_axis_off()
    axes.set(xlim=(0, _WIDTH_PT), ylim=(top, 0))
    notes = [*content.notes]
    if drawn < len(content.blocks):
        notes.append(f"The first {drawn} of {len(content.blocks)} parts of the table.")
    panel.lay_out(figure, top, table, [], notes)
    return figure
