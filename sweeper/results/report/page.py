"""Writes outputs/report.html: one file that holds its data, style and scripts and loads nothing.

Names, errors and logs are foreign text. They enter the page as compressed JSON in a block that no
browser runs, and the script shows them as text nodes only. Figures are images: a browser runs no
script in an image, and names inside one figure cannot meet those of another. The content security
policy allows exactly the style and the script of the page, by their hashes, and no request.
"""

import gzip
import hashlib
import json
import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from sweeper.results.figures import is_measured, svg_of
from sweeper.results.judge import Verdicts
from sweeper.results.palette import PALETTE
from sweeper.results.report.data import page_data
from sweeper.results.table import Data, Table, publish_made
from sweeper.store.errors import Faults, collect_errors, sanitize

SCRIPTS = ("curves.js", "page.js")

_MOST_LETTERS = 2000  # of one text
_DIGITS = 7  # of one number; the tables hold all of them


def write_report(
    outputs: Path,
    tables: Sequence[Table],
    verdicts: Verdicts,
    into: Path | None = None,
    *,
    refresh_s: float | None = None,
    faults: Faults | None = None,
) -> Path:
    """Write the page of these tables, their verdicts by name and their runs; return its path.

    Args:
        into: the folder of the page, by default `outputs`.
        refresh_s: an open page loads itself again after that many seconds.
        faults: collects the errors of figures that cannot be drawn.

    Raises:
        UserError: without `faults`, a figure that cannot be drawn.
    """
    figures: dict[str, str] = {}
    for table in filter(is_measured, tables):
        with collect_errors(faults, table.name):
            figures[table.name] = svg_of(outputs, table)
    path = (into or outputs) / "report.html"
    publish_made(
        path, as_html(page_data(outputs, tables, verdicts), figures, refresh_s)
    )
    return path


def as_html(
    data: Data, figures: Mapping[str, str], refresh_s: float | None = None
) -> str:
    """Return the whole page.

    Args:
        data: what `page_data` returns.
        figures: the SVG of each experiment that has one, by name.
        refresh_s: the page loads itself again after that many seconds.
    """
    # The figures' colours, mixed with white where the page is dark.
    colours = "".join(
        f"--arm-{place}:light-dark({colour}, color-mix(in oklab, {colour}, white 25%));"
        for place, colour in enumerate(PALETTE)
    )
    style = f":root{{{colours}}}\n" + _asset("page.css")
    script = '"use strict";\n' + "".join(map(_asset, SCRIPTS))
    refresh = f'<meta name="refresh" content="{refresh_s:.0f}">' if refresh_s else ""
    content = {
        **_plain(data),
        "figures": {_key(name): svg for name, svg in figures.items()},
    }
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return Template(_asset("page.html")).substitute(
        refresh=refresh,
        style_hash=_hash(style),
        script_hash=_hash(script),
        style=style,
        script=script,
        data=b64encode(gzip.compress(text.encode(), mtime=0)).decode(),
    )


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _plain(value: Any) -> Any:
    """Make every text one printable line and every number one that JSON can hold."""
    if type(value) in _EXACT:
        return value
    if isinstance(value, str):
        fits = len(value) <= _MOST_LETTERS and value.isprintable()
        return value if fits else sanitize(value, _MOST_LETTERS)
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if type(value) is dict or isinstance(value, Mapping):
        return {_key(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value]


_EXACT = frozenset({int, bool, type(None)})
_key = lru_cache(sanitize)  # few names stand in many runs
