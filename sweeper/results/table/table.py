"""A table: the tidy rows of one experiment, and the files that it is exported to.

outputs/tables/<experiment>.csv           the rows; the columns are described in collect.py
outputs/tables/<experiment>.json          name, title, metric, arms, claims; the plan
outputs/tables/<experiment>.printed.*     .txt, .csv, .tex: as a paper prints it (paper_tables)
outputs/tables/<experiment>.claims.json   the verdicts (judge.py)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.results.table.columns import label
from sweeper.store.files import FORMAT, as_json, make_directory, new_file, write_all
from sweeper.store.identity import can_change_results

Row = Mapping[str, Any]

_ABOUT = ("name", "experiment", "provenance", "settings")
# What names an experiment, its scale, seeds and text, is told elsewhere.
_TYPED = re.compile(r"(?!(?:experiment|scale|seed)[=./]|data=|data\.root=)([\w+./@]+)=")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SPECIAL = re.compile(r'[,"\r\n]')
# What a spreadsheet takes for a formula; the apostrophe marks a cell as text, so it is marked too.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")


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

    @property
    def title(self) -> str:
        """What it is called above figures and tables; of a grid typed by hand, what it varies."""
        if list(self.experiment["arms"]) != ["grid"]:
            return str(self.experiment.get("title") or self.name)
        varied = dict.fromkeys(key for values in self.settings.values() for key in values)
        over, by = label(self.metric), " and ".join(map(label, varied))
        return f"{over[:1].upper()}{over[1:]}{f' by {by}' if by else ''}"

    @property
    def fixed(self) -> list[str]:
        """What was typed for all of its runs alike, and can change them: each a `key=value`."""
        varied = {key for values in self.settings.values() for key in values}
        typed = map(_TYPED.match, map(str, self.provenance.get("command") or ()))
        return [
            found.string
            for found in typed
            if found and found[1] not in varied and can_change_results(found[1])
        ]

    def label(self, arm: str) -> str:
        return str(self.experiment["arms"].get(arm, {}).get("label") or arm)


def stem(name: str) -> str:
    """The file name, less its suffix, of what is made of an experiment; never a path."""
    if _PLAIN.fullmatch(name):
        return name
    letters = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:32]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{letters or 'experiment'}-{digest[:12]}"


def exported(outputs: Path, table: Table, suffix: str = ".csv") -> Path:
    return outputs / "tables" / f"{stem(table.name)}{suffix}"


def files_made_of(outputs: Path, name: str) -> list[Path]:
    """The tables and figures that there are of an experiment."""
    folders = (outputs / "tables", outputs / "figures")
    return [path for folder in folders for path in sorted(folder.glob(f"{stem(name)}.*"))]


def set_aside(outputs: Path, name: str, called: str) -> None:
    """Rename the files made of an experiment, which is now called otherwise."""
    for path in files_made_of(outputs, name):
        path.rename(path.with_name(stem(called) + path.name.removeprefix(stem(name))))


def publish_made(path: Path, data: bytes | str) -> None:
    """`publish` of what is made from records, for anyone who may enter the folder above its own."""
    make_directory(path.parent, 0o755)
    with new_file(path, mode=0o644) as descriptor:
        write_all(descriptor, data.encode() if isinstance(data, str) else data)


def write_table(outputs: Path, table: Table) -> Path:
    """Writes the rows of a table and what they are of; returns the path of the .csv."""
    path = exported(outputs, table)
    about = {key: getattr(table, key) for key in _ABOUT}
    publish_made(exported(outputs, table, ".json"), as_json({"format": FORMAT, **about}))
    lines = [table.columns, *([row.get(key) for key in table.columns] for row in table.rows)]
    publish_made(path, "".join(map(csv_line, lines)))
    return path


def csv_line(cells: Iterable[Any]) -> str:
    """Values as a line of a .csv, with no formula among them."""
    return ",".join(map(_cell, cells)) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    # JSON can hold half of a surrogate pair, which no file of text can.
    text = str(value).encode("utf-8", "backslashreplace").decode()
    text = f"'{text}" if text.startswith(_FORMULA) else text
    # csv.writer leaves a lone carriage return bare, which its own reader takes for a new line.
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text
