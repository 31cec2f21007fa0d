"""The house style: sizes, fonts, colours, and text that may hold anything."""

from __future__ import annotations

import textwrap
from functools import cache
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
from matplotlib import rc_params_from_file
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.textpath import TextPath

# ICML: the width of a column and of both with the gap between them, in inches.
COLUMN = 3.25
DOUBLE_COLUMN = 6.75

RC = rc_params_from_file(Path(__file__).with_name("house.mplstyle"), use_default_template=False)
TEXT_PT, SMALL_PT, LEGEND_PT = RC["font.size"], RC["xtick.labelsize"], RC["legend.fontsize"]
INK, FAINT_INK = RC["text.color"], RC["axes.edgecolor"]
LETTER = 0.54  # width of a letter in its size, on average
_TIGHT = 0.93  # of the letters that fit in a line on average

KINDS = ("pdf", "png", "svg")


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


def rendered(figure: Figure) -> dict[str, bytes]:
    """The figure as files, by suffix; equal figures give equal bytes, whenever they are drawn."""
    metadata = {
        "pdf": {"CreationDate": None, "ModDate": None},
        "png": {"Software": None},
        "svg": {"Date": None},
    }
    files = {}
    with mpl.rc_context(RC):
        for kind in KINDS:
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, metadata=metadata[kind])
            files[kind] = buffer.getvalue()
    return files


@cache
def _letters() -> frozenset[int]:
    """The characters that the font of the figures has."""
    return frozenset(get_font(findfont(FontProperties(family=RC["font.sans-serif"]))).get_charmap())
