"""The house style: sizes, fonts, colours, and text that may hold anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from io import BytesIO
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

from sweeper.results.figures.layout.palette import PALETTE as PALETTE

# ICML: the width of a column and of both with the gap between them, in inches.
COLUMN = 3.25
DOUBLE_COLUMN = 6.75

TEXT_PT = 8.0
SMALL_PT = 6.5
LEGEND_PT = 7.0
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
    shares = [1.0] if count == 1 else [0.4 + 0.6 * step / (count - 1) for step in range(count)]
    red, green, blue = to_rgb(colour)
    return [
        to_hex((1 - share * (1 - red), 1 - share * (1 - green), 1 - share * (1 - blue)))
        for share in shares
    ]


def blank(width: float) -> Figure:
    """An empty figure `width` inches wide; `lay_out` gives it its height."""
    figure = Figure(figsize=(width, width))
    FigureCanvasAgg(figure)
    return figure


def plain(value: object, limit: int = 48) -> str:
    """`value` as text that can be drawn: one line, short, only letters that the font has."""
    text = str(value)
    if len(text) > limit:
        text = text[: limit - 1].rstrip() + "…"
    letters = _letters()
    return "".join(
        letter if ord(letter) in letters and letter.isprintable() else "?" for letter in text
    )


def text_width(text: str, size: float, weight: str = "normal") -> float:
    """How wide `text` is when set in `size` points, in points."""
    font = FontProperties(family=RC["font.sans-serif"], size=size, weight=weight)
    measure = _renderer().get_text_width_height_descent
    width, _, _ = measure(text, font, False)  # type: ignore[no-untyped-call]
    return float(width)


def wrapped(
    text: str, size: float, width: float, *, weight: str = "normal", most: int = 100
) -> list[str]:
    """`text` broken into at most `most` lines no wider than `width` points; what is cut shows …."""

    def fits(line: str) -> bool:
        return text_width(line, size, weight) <= width

    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and (len(lines) == most or fits(longer)):
            lines[-1] = longer
        else:
            lines.append(word)
    return [_cut(line, fits) for line in lines]


def _cut(line: str, fits: Callable[[str], bool]) -> str:
    if fits(line):
        return line
    kept = next(n for n in range(len(line) - 1, -1, -1) if fits(line[:n] + "…"))
    return line[:kept].rstrip() + "…"


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
def _renderer() -> RendererAgg:
    """What measures text; at 72 dots an inch its dots are points."""
    return RendererAgg(1, 1, dpi=72)  # type: ignore[no-untyped-call]


@cache
def _letters() -> frozenset[int]:
    """The characters that the font of the figures has."""
    return frozenset(get_font(findfont(FontProperties(family=RC["font.sans-serif"]))).get_charmap())
