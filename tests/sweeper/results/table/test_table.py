"""A table is exported whole, as any program reads it, and no cell of it is a formula."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sweeper.results.table import Table, stem, write_table

CELLS: dict[str, Any] = {
    "words": 'heads=8, "quoted"\nand\rmore\0\x1b[31m',
    "whole": 29_384_705,
    "fraction": 0.1 + 0.2,
    "tiny": -1.5e-300,
    "yes": True,
    "nothing": None,
    "run": "1e5",
    "model.name": "1_000",
    "test/loss": "nan",
    "arm": "true",
}
FORMULAS = ["=cmd()", "+1", "-rf", "@SUM(A1)", "\tx", "\rx", "'quoted", "-5"]


def table(rows: list[dict[str, Any]], name: str = "fig1") -> Table:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return Table(name, {"metric": "test/loss", "arms": {}}, {}, {"a=1": {"a": 1}}, columns, rows)


def cells(path: Path) -> list[list[str]]:
    """The lines of a .csv, as its module reads them."""
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_every_cell_is_there_as_text_that_says_it_exactly(tmp_path: Path) -> None:
    path = write_table(tmp_path, table([CELLS]))
    heads, line = cells(path)
    told = {True: "true", None: ""}
    assert heads == list(CELLS)
    assert line == [told[v] if v is True or v is None else str(v) for v in CELLS.values()]
    assert float(line[2]) == 0.1 + 0.2


def test_what_the_rows_are_of_stands_beside_them(tmp_path: Path) -> None:
    path = write_table(tmp_path, table([CELLS]))
    about = json.loads(path.with_suffix(".json").read_text())
    assert about.pop("format") == 1
    assert about == {
        "name": "fig1",
        "experiment": {"metric": "test/loss", "arms": {}},
        "provenance": {},
        "settings": {"a=1": {"a": 1}},
    }


@pytest.mark.parametrize("text", FORMULAS)
def test_words_that_look_like_a_formula_are_marked_as_text(tmp_path: Path, text: str) -> None:
    given = table([{"arm": text, "model.name": text, text: 7}])
    path = write_table(tmp_path, given)
    heads, line = cells(path)
    assert [heads[2], *line[:2]] == [f"'{text}"] * 3


def test_half_a_letter_does_not_keep_a_table_from_being_written(tmp_path: Path) -> None:
    assert cells(write_table(tmp_path, table([{"arm": "\ud800"}]))) == [["arm"], ["\\ud800"]]


def test_a_negative_number_stays_a_number(tmp_path: Path) -> None:
    path = write_table(tmp_path, table([{"match_error": -0.0017}]))
    assert path.read_text() == "match_error\n-0.0017\n"


def test_pandas_reads_it(tmp_path: Path) -> None:
    path = write_table(tmp_path, table([CELLS, {**CELLS, "nothing": 7}]))
    frame = pd.read_csv(path)
    assert list(frame.columns) == list(CELLS)
    assert frame["whole"].tolist() == [29_384_705] * 2
    assert math.isnan(frame["nothing"][0])


NAMES = [
    "../../x",
    "/abs",
    "a/b",
    "x" * 300,
    "a\0b",
    "a\nb",
    ".hidden",
    "-rf",
    "",
    "b.claims",
    "é",
    "\ud800",
]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_no_name_leaves_the_folder(tmp_path: Path, name: str) -> None:
    path = write_table(tmp_path / "outputs", table([CELLS], name))
    assert path.resolve().parent == tmp_path / "outputs" / "tables"
    assert [entry.name for entry in tmp_path.iterdir()] == ["outputs"]
    assert json.loads(path.with_suffix(".json").read_text())["name"] == name


def test_different_names_never_share_a_file() -> None:
    assert stem("fig1") == "fig1"
    assert len({stem(name) for name in [*NAMES, "x-y", "x/y", "x.y"]}) == len(NAMES) + 3
