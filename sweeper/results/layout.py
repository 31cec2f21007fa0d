"""The style and the layout of figures: title and legend above the panels, notes below."""

import math
import textwrap
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import rc_context, rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D

from sweeper.store.errors import sanitize

# The text widths of ICML's style, in inches: of one column, and of two with the gap between them.
COLUMN = 3.25
DOUBLE_COLUMN = 6.75

# Start from matplotlib's own defaults, so that a user's matplotlibrc does not change figures.
STYLE = Path(__file__).with_name("house.mplstyle")
RC = rc_params_from_file(STYLE, use_default_template=True)

TEXT_PT = RC["font.size"]
SMALL_PT = RC["xtick.labelsize"]
LEGEND_PT = RC["legend.fontsize"]
INK = RC["text.color"]
FAINT_INK = RC["axes.edgecolor"]

_PAD_PT = 3.0
# The mean width of a letter, as a fraction of the font size. Few texts have wider letters.
_LETTER = 0.56
_LABEL_LETTERS = 48
_HANDLE = 4  # the width of a legend's handle and the gaps beside it, in units of the font size

# Leave out dates and versions, so that equal figures have equal bytes.
_METADATA: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None, "ModDate": None},
    "png": {"Software": None},
    "svg": {"Date": None},
}

Style = dict[str, Any]
"""Keyword arguments of a matplotlib line or text."""

Entry = tuple[tuple[Line2D, ...], str]
"""An entry of a legend: its handles, which are drawn side by side, and its label."""


# The style of small text above a panel.
FAINT: Style = {"ha": "center", "fontsize": SMALL_PT, "color": FAINT_INK}


def plain(value: object, limit: int = _LABEL_LETTERS) -> str:
    """Return `value` as one line of at most `limit` printable characters."""
    return sanitize(value, limit)[:limit]


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels side by side.

    A single panel is as wide as one column of text. Several panels are together as wide as two.
    """
    width = COLUMN if count == 1 else DOUBLE_COLUMN
    figure = Figure(figsize=(width, width))
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    if count > 1:
        name_panels(axes)
    return figure, axes


def name_panels(panels: Sequence[Axes]) -> None:
    """Write the names (a), (b), ... above panels."""
    for place, axes in enumerate(panels):
        name = f"({chr(ord('a') + place)})"
        axes.set_title(name, loc="left", fontweight="bold", pad=4)


def lay_out(
    figure: Figure,
    height_pt: float,
    title: str,
    legend: Sequence[Entry],
    notes: Sequence[str],
) -> None:
    """Write the title and the legend above the panels and the notes below. Set the figure's height.

    `height_pt` is the height of all panels and their axis labels, in points.
    """
    width = figure.get_figwidth() * 72
    inner = width - 2 * _PAD_PT

    def wrapped(text: str, letter_pt: float) -> list[str]:
        letters = int(inner / letter_pt / _LETTER)
        return textwrap.wrap(text, letters, break_on_hyphens=False)

    # The title is bold, and bold letters are about 10 % wider.
    head = wrapped(plain(title, 120), 1.1 * TEXT_PT)
    foot = [line for note in notes for line in wrapped(plain(note, 400), SMALL_PT)]
    words = [plain(words) for _, words in legend]

    longest = max(map(len, words), default=0)
    columns = max(1, int(inner / LEGEND_PT / (longest * _LETTER + _HANDLE)))
    lines = math.ceil(len(legend) / columns)

    height = height_pt + 4 * _PAD_PT
    height += 1.3 * (len(head) * TEXT_PT + len(foot) * SMALL_PT)
    height += 1.65 * lines * LEGEND_PT
    figure.set_size_inches(width / 72, height / 72)
    figure.set_layout_engine("constrained", h_pad=_PAD_PT / 72, w_pad=_PAD_PT / 72)

    handles: list[Any] = [own for own, _ in legend]
    figure.legend(
        handles,
        words,
        loc="outside upper left",
        ncols=columns,
        borderaxespad=_PAD_PT / LEGEND_PT,
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.0)},
        title="\n".join(head),
        title_fontproperties={"size": TEXT_PT, "weight": "bold"},
        alignment="left",
    )
    faint: Style = {"fontsize": SMALL_PT, "color": FAINT_INK, "ha": "left"}
    figure.supxlabel("\n".join(foot), x=_PAD_PT / width, **faint)


def rendered(figure: Figure, kind: str) -> bytes:
    """Return the bytes of the figure as "pdf", "png" or "svg". Equal figures give equal bytes."""
    buffer = BytesIO()
    with rc_context(RC):
        figure.savefig(buffer, format=kind, metadata=_METADATA[kind])
    return buffer.getvalue()
