"""Write outputs/report.html, one file that contains all its data, style and scripts.

Names, errors and logs are untrusted text. They enter the page as compressed JSON, in a block that
browsers do not run, and the script shows them only as text nodes. SVG figures are embedded as
images, for two reasons: browsers run no scripts in images, and the ids in one figure cannot clash
with those in another. The content security policy allows only the style and the script of the page,
by their hashes, and no requests.
"""

import gzip
import hashlib
import json
import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
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

_MOST_LETTERS = 2000  # longer strings are cut
# Numbers on the page are rounded to this many significant digits. The .csv files have all digits.
_DIGITS = 7


def write_report(
    outputs: Path,
    tables: Sequence[Table],
    verdicts: Verdicts,
    into: Path | None = None,
    *,
    refresh_s: float | None = None,
    faults: Faults | None = None,
) -> Path:
    """Write the page with these tables, their verdicts and their runs; return its path.

    Args:
        outputs: the outputs folder.
        tables: the tables.
        verdicts: the verdicts on each table.
        into: the folder of the page; `outputs` by default.
        refresh_s: the number of seconds after which an open page reloads itself; None for never.
        faults: a list to which the errors of figures are appended. If it is None, the first error
            is raised.

    Raises:
        UserError: a figure cannot be drawn, and `faults` is None.
    """
    figures: dict[str, str] = {}
    for table in filter(is_measured, tables):
        with collect_errors(faults, table.name):
            figures[table.name] = svg_of(outputs, table)
    path = (into or outputs) / "report.html"
    data = page_data(outputs, tables, verdicts)
    publish_made(path, as_html(data, figures, refresh_s))
    return path


def as_html(
    data: Data, figures: Mapping[str, str], refresh_s: float | None = None
) -> str:
    """Return the page as HTML.

    Args:
        data: the result of `page_data`.
        figures: the SVG of each drawn experiment, by name.
        refresh_s: the number of seconds after which an open page reloads itself; None for never.
    """
    # Arms have the same colours as in the figures, but in the dark theme they are mixed with white.
    colours = "".join(
        f"--arm-{place}:light-dark({colour}, color-mix(in oklab, {colour}, white 25%));"
        for place, colour in enumerate(PALETTE)
    )
    style = f":root{{{colours}}}\n" + _asset("page.css")
    script = '"use strict";\n' + "".join(map(_asset, SCRIPTS))
    refresh = f'<meta name="refresh" content="{refresh_s:.0f}">' if refresh_s else ""
    drawn = {sanitize(name): svg for name, svg in figures.items()}
    content = _plain(data) | {"figures": drawn}
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
    """Return the data with sanitized strings and rounded numbers; non-finite ones become None."""
    if isinstance(value, str):
        return sanitize(value, _MOST_LETTERS)
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {sanitize(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
