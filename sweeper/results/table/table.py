"""A table: the tidy rows of one experiment, and what it is on disk.

outputs/tables/<experiment>.csv           the rows; the columns are described in collect.py
outputs/tables/<experiment>.json          name, title, metric, arms, claims; the plan
outputs/tables/<experiment>.printed.*     .txt, .csv, .tex: as a paper prints it (typeset.py)
outputs/tables/<experiment>.claims.json   the verdicts (claims.py)
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.store.errors import wrong
from sweeper.store.files import (
    FORMAT,
    make_directory,
    publish,
    publish_json,
    read_bytes,
    read_object,
)

Row = Mapping[str, Any]

# Columns whose cells are words even where they look like numbers.
TEXT = frozenset(
    {
        "experiment",
        "arm",
        "point",
        "task",
        "matched_to",
        "match_count",
        "device",
        "code",
        "state",
        "reason",
        "run",
    }
)

_ABOUT = ("name", "experiment", "provenance", "settings")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NUMBER = re.compile(r"-?[0-9]+(?P<fraction>(\.[0-9]+)?(e[+-]?[0-9]+)?)")
_SPECIAL = re.compile(r'[,"\r\n]')
# What a spreadsheet takes for a formula; the apostrophe marks a cell as text, so it is marked too.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
_WORDS = {"": None, "true": True, "false": False}


@dataclass(frozen=True)
class Table:
    """The rows of one experiment.

    Attributes:
        name: the experiment.
        experiment: what the plan says of it: title, metric, x, figure, claims, arms.
        provenance: the number, command and scale of the plan.
        settings: by the words in column `point`, the config keys and values they stand for.
        columns: in order; every row has a value (or None) for each.
        rows: one per (arm, point, seed), in the order of the plan.
    """

    name: str
    experiment: Mapping[str, Any]
    provenance: Mapping[str, Any]
    settings: Mapping[str, Mapping[str, Any]]
    columns: Sequence[str]
    rows: Sequence[Row]

    @property
    def metric(self) -> str:
        """The column that the arms are compared on."""
        return str(self.experiment["metric"])

    def label(self, arm: str) -> str:
        """The words for an arm."""
        return str(self.experiment["arms"].get(arm, {}).get("label") or arm)


def stem(name: str) -> str:
    """The file name, less its suffix, of what is made of an experiment; never a path."""
    if _PLAIN.fullmatch(name):
        return name
    letters = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:32]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{letters or 'experiment'}-{digest[:12]}"


def write_table(outputs: Path, table: Table) -> Path:
    """Writes both files of a table; returns the path of the .csv."""
    folder = outputs / "tables"
    make_directory(folder)
    path = folder / f"{stem(table.name)}.csv"
    about = {key: getattr(table, key) for key in _ABOUT}
    publish_json(path.with_suffix(".json"), {"format": FORMAT, **about})
    publish(path, _text(table))
    return path


def read_table(path: Path) -> Table:
    """The table whose .csv is at `path`; UserError if one of its files is missing."""
    about = read_object(path.with_suffix(".json"))
    data = read_bytes(path)
    if about is None or data is None:
        expected = "a table with its .csv and .json side by side"
        raise wrong("table", path, expected, "run python -m sweeper collect")
    lines = csv.reader(io.StringIO(data.decode(), newline=""))
    columns = [_undefused(column) for column in next(lines)]
    rows = [
        {column: _value(column, cell) for column, cell in zip(columns, line, strict=True)}
        for line in lines
    ]
    return Table(**{key: about[key] for key in _ABOUT}, columns=columns, rows=rows)


def _text(table: Table) -> str:
    lines = [[_defused(column) for column in table.columns]]
    lines += [[_cell(row.get(column)) for column in table.columns] for row in table.rows]
    return "".join(map(_line, lines))


def csv_line(cells: Iterable[Any]) -> str:
    """Values as a line of a .csv, with no formula among them."""
    return _line(map(_cell, cells))


def _line(cells: Iterable[str]) -> str:
    return ",".join(map(_quoted, cells)) + "\n"


def _quoted(cell: str) -> str:
    # csv.writer leaves a lone carriage return bare, which its own reader takes for a new line.
    return '"' + cell.replace('"', '""') + '"' if _SPECIAL.search(cell) else cell


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return _defused(str(value))


def _defused(text: str) -> str:
    # JSON can hold half of a surrogate pair, which no file of text can.
    text = text.encode("utf-8", "backslashreplace").decode()
    return f"'{text}" if text.startswith(_FORMULA) else text


def _undefused(text: str) -> str:
    return text.removeprefix("'")


def _value(column: str, cell: str) -> Any:
    if cell in _WORDS and (column not in TEXT or not cell):
        return _WORDS[cell]
    if cell.startswith("'"):
        return _undefused(cell)
    if column not in TEXT and (number := _NUMBER.fullmatch(cell)):
        return float(cell) if number["fraction"] else int(cell)
    return cell
