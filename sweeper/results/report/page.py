"""Writes outputs/report.html: the page, and in it what it shows as data.

Names, errors and logs are foreign text. They enter the page as JSON inside a block that no browser
runs, and the scripts put them on it as text alone. The policy at the top of the page allows the
style and the script that are named there by their hash, and nothing else: no request leaves it.
"""

from __future__ import annotations

import hashlib
import json
import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from sweeper.results.figures.layout.palette import PALETTE
from sweeper.results.judge import Verdicts
from sweeper.results.report.experiments import experiment
from sweeper.results.report.provenance import provenance
from sweeper.results.report.runs import described, shared_settings
from sweeper.results.table import Row, Table, publish_made
from sweeper.store.errors import sanitize
from sweeper.store.runs import RunStore

SCRIPTS = (
    "elements pointer numbers axes series charts curves run rows closing experiments state page"
).split()

_MOST_LETTERS = 2000  # of one text
_LIFT = "25%"
_DIGITS = 7  # of one number; the tables hold all of them


def write_report(
    outputs: Path, tables: Sequence[Table], verdicts: Verdicts, into: Path | None = None
) -> Path:
    """Writes the page of these tables, the verdicts on them by name, and the runs behind them.

    What a claim is asked of comes before what has none. It lies in `outputs`, or `into` another
    folder.
    """
    path = (into or outputs) / "report.html"
    publish_made(path, as_html(content(outputs, tables, verdicts)))
    return path


def content(outputs: Path, tables: Sequence[Table], verdicts: Verdicts) -> dict[str, Any]:
    rows: dict[str, Row] = {str(row["run"]): row for table in tables for row in table.rows}
    store = RunStore(outputs)
    runs = {id: described(store.run(id), row, len(rows)) for id, row in rows.items()}
    about = provenance(tables, runs)
    order = sorted(tables, key=lambda table: not verdicts[table.name])
    return {
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "experiments": [experiment(table, verdicts[table.name]) for table in order],
        "provenance": about,
        "shared": shared_settings(runs.values()),
        "runs": runs,
    }


def as_html(content: Mapping[str, Any]) -> str:
    """The whole page; only numbers, and text as data, are taken from `content`."""
    style = _palette() + _part("page.css")
    script = "".join(_part(f"{name}.js") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    # No text of the data can close the block that it is in, nor open another.
    data = json.dumps(_plain(content), separators=(",", ":"), allow_nan=False).replace(
        "<", "\\u003c"
    )
    page = Template(_part("page.html"))
    hashes = {"style_hash": _hash(style), "script_hash": _hash(script)}
    return page.substitute(hashes, style=style, script=script, data=data)


def _palette() -> str:
    """The colours of the figures, for the style to use; lighter where the page is dark."""
    dark = [f"color-mix(in oklab, {colour}, white {_LIFT})" for colour in PALETTE]
    both = [f"light-dark({pair[0]}, {pair[1]})" for pair in zip(PALETTE, dark, strict=True)]
    return f":root{{{''.join(f'--arm-{place}:{pair};' for place, pair in enumerate(both))}}}\n"


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _plain(value: Any) -> Any:
    """`value` with every text one harmless line, and every number one that JSON has."""
    if isinstance(value, Mapping):
        return {sanitize(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    if isinstance(value, str):
        return sanitize(value, _MOST_LETTERS)
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value
