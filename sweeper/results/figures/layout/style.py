"""The house style: sizes, fonts, colours, and text that may hold anything."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.textpath import TextPath

from sweeper.results.figures.layout.palette import PALETTE as PALETTE

# ICML: the width of a column and of both with the gap between them, in inches.
COLUMN = 3.25
DOUBLE_COLUMN = 6.75

TEXT_PT = 8.0
SMALL_PT = 6.5
LEGEND_PT = 7.0
LETTER = 0.54  # width of a letter in its size, on average
_TIGHT = 0.93  # of the letters that fit in a line on average
INK, FAINT_INK, GRID = "#222222", "#666666", "#e6e6e6"

KINDS = ("pdf", "png", "svg")

MARKERS = ("o", "s", "^", "D", "v", "P", "X")

RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so it is the same everywhere
    "font.size": TEXT_PT,
    "axes.labelsize": TEXT_PT,
    "axes.titlesize": TEXT_PT,
    "xtick.labelsize": SMALL_PT,
    "ytick.labelsize": SMALL_PT,
    "legend.fontsize": LEGEND_PT,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT_INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "xtick.color": FAINT_INK,
    "ytick.color": FAINT_INK,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.0,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.columnspacing": 1.4,
    "legend.borderaxespad": 0.0,
    "legend.borderpad": 0.0,
    "text.parse_math": False,  # names may hold a dollar sign
    "axes.unicode_minus": True,
    "pdf.fonttype": 42,  # TrueType: conferences refuse Type 3
    "svg.fonttype": "path",
    "svg.hashsalt": "headroom",  # identifiers in an SVG are random without
    "savefig.dpi": 300,
    "figure.dpi": 72,
}


def ramp(count: int) -> list[str]:
    """`count` colours of one family from light to dark, for an ordered key."""
    colours = mpl.colormaps["YlGnBu"]
    shares = [0.68] if count == 1 else [0.38 + 0.62 * step / (count - 1) for step in range(count)]
    return [to_hex(colours(share)) for share in shares]


def shades(colour: str, count: int) -> list[str]:
    """`count` shades of a colour, from light to itself."""
    mixed = LinearSegmentedColormap.from_list("shades", ["white", colour])
    return [to_hex(mixed(share)) for share in np.linspace(1.0, 0.4, count)[::-1]]


def plain(value: object, limit: int = 48) -> str:
    """`value` as text that can be drawn: one line, short, only letters that the font has."""
    text = str(value)
    if len(text) > limit:
        text = text[: limit - 1].rstrip() + "…"
    letters = _letters()
    return "".join(
        letter if ord(letter) in letters and letter.isprintable() else "?" for letter in text
    )


def wrapped(text: str, size: float, width: float, *, weight: str = "normal") -> list[str]:
    """`text` in lines of about `width` points when set in `size`."""
    if not text.strip():
        return []
    font = FontProperties(family=RC["font.sans-serif"], weight=weight)
    share = width / TextPath((0, 0), text, size=size, prop=font).get_extents().width
    return textwrap.wrap(text, max(1, int(len(text) * share * (1 if share >= 1 else _TIGHT))))


def rendered(figure: Figure, kinds: Sequence[str] = KINDS) -> dict[str, bytes]:
    """The figure as files, by suffix; equal figures give equal bytes, whenever they are drawn."""
    metadata = {
        "pdf": {"CreationDate": None, "ModDate": None},
        "png": {"Software": None},
        "svg": {"Date": None},
    }
    files = {}
    with mpl.rc_context(RC):
        for kind in kinds:
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, metadata=metadata[kind])
            files[kind] = buffer.getvalue()
    return files


@cache
def _letters() -> frozenset[int]:
    """The characters that the font of the figures has."""
    return frozenset(get_font(findfont(FontProperties(family=RC["font.sans-serif"]))).get_charmap())
