"""A table comes back from disk as it was, and no cell of it is a formula."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sweeper.results.table.table import Table, read_table, stem, write_table
from sweeper.store.errors import UserError

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


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    given = table([CELLS])
    assert read_table(write_table(tmp_path, given)) == given


@pytest.mark.parametrize("text", FORMULAS)
def test_words_that_look_like_a_formula_are_marked_as_text(tmp_path: Path, text: str) -> None:
    given = table([{"arm": text, "model.name": text, text: 7}])
    path = write_table(tmp_path, given)
    with path.open(newline="") as file:
        [heads, cells] = csv.reader(file)
    assert all(cell.startswith("'") for cell in (heads[2], *cells[:2]))
    assert read_table(path) == given


def test_half_a_letter_does_not_keep_a_table_from_being_written(tmp_path: Path) -> None:
    assert read_table(write_table(tmp_path, table([{"arm": "\ud800"}]))).rows == [
        {"arm": "\\ud800"}
    ]


def test_a_negative_number_stays_a_number(tmp_path: Path) -> None:
    path = write_table(tmp_path, table([{"match_error": -0.0017}]))
    assert path.read_text() == "match_error\n-0.0017\n"


def test_pandas_reads_it(tmp_path: Path) -> None:
    path = write_table(tmp_path, table([CELLS, {**CELLS, "nothing": 7}]))
    frame = pd.read_csv(path)
    assert list(frame.columns) == list(CELLS)
    assert frame["whole"].tolist() == [29_384_705] * 2
    assert math.isnan(frame["nothing"][0])


def test_half_a_table_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    path = write_table(tmp_path, table([CELLS]))
    path.with_suffix(".json").unlink()
    with pytest.raises(UserError, match="python -m sweeper collect"):
        read_table(path)


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
    assert read_table(path).name == name


def test_different_names_never_share_a_file() -> None:
    assert stem("fig1") == "fig1"
    assert len({stem(name) for name in [*NAMES, "x-y", "x/y", "x.y"]}) == len(NAMES) + 3
