"""A paper table as a figure, in a monospaced font."""

from matplotlib.figure import Figure

from sweeper.results import layout
from sweeper.results.paper_tables import blocks_as_text, paper_table
from sweeper.results.table import Table

# The width of a letter, as a fraction of the font size, rounded up to whole pixels.
_LETTER = 0.7
_LINE = 1.2  # line spacing, in units of the font size


def draw(table: Table) -> Figure:
    """Draw a paper table as text. Long lines make the font smaller."""
    content = paper_table(table)
    lines = [layout.plain(line, 1000) for line in blocks_as_text(content)]
    letters = max(map(len, lines), default=1)
    width_pt = layout.DOUBLE_COLUMN * 72 - 10
    size_pt = min(layout.TEXT_PT, width_pt / letters / _LETTER)

    figure, [axes] = layout.panels(1)
    figure.set_figwidth(layout.DOUBLE_COLUMN)
    axes.set_axis_off()
    style = {"family": "monospace", "size": size_pt, "linespacing": _LINE}
    axes.text(0, 1, "\n".join(lines), va="top", transform=axes.transAxes, **style)
    height_pt = len(lines) * size_pt * _LINE + 2 * layout.TEXT_PT
    layout.lay_out(figure, height_pt, table.title, [], content.notes)
    return figure
