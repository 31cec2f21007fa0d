"""Judges the claims of a bundle anew from its records, and draws its figures, wherever it is."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sweeper.carry.archive import unpack
from sweeper.carry.bundle import KIND
from sweeper.results.collect import collect, write_tables
from sweeper.results.draw import write_figures
from sweeper.results.judge import judge
from sweeper.results.table import Table, exported
from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import read_object

_SHAPE = {"verdicts": [{"claim": str, "measure": str, "verdict": str, "numbers": dict}]}


def rejudge(console: Console, path: Path, into: Path) -> int:
    """Print each claim with its answer in the bundle and its answer here; 1 where these differ.

    Args:
        into: where tables and figures are written as they come out here.

    Raises:
        UserError: it is no bundle, not as it was written, or cannot be judged.
    """
    with tempfile.TemporaryDirectory() as folder:
        outputs = Path(folder)
        manifest = unpack(path, outputs)
        if manifest["kind"] != KIND:
            raise UserError(
                f"{sanitize(path)} is a {sanitize(manifest['kind'], 80)}, not a bundle."
            )
        tables = collect(outputs, manifest["experiments"])
        write_tables(into, tables)
        judge(into, tables)
        figures = write_figures(into, tables)
        differ = False
        for table in tables:
            for words, same in _compared(_answers(outputs, table), _answers(into, table)):
                differ |= not same
                style = "" if same else "bold red"
                console.print(Text(f"{sanitize(table.name)}: {words}", style), soft_wrap=True)
    told = "An answer differs." if differ else "Every answer is that of the bundle."
    console.print(Text(f"{told} {len(tables)} tables and {len(figures)} figures: {into}"))
    return int(differ)


Answers = dict[tuple[str, str], dict[str, Any]]


def _answers(outputs: Path, table: Table) -> Answers:
    """The verdicts that lie there, by claim and measure."""
    path = exported(outputs, table, ".claims.json")
    found = read_object(path, keys=_SHAPE, shape=_SHAPE)
    if found is None:
        raise UserError(f"the bundle has no {path.name}, which its claims were judged in.")
    return {(one["claim"], one["measure"]): one for one in found["verdicts"]}


def _compared(bundled: Answers, here: Answers) -> Iterator[tuple[str, bool]]:
    """Of each claim words on its two answers, and whether these are the same."""
    for claim in dict.fromkeys([*bundled, *here]):
        before, after = (side.get(claim) for side in (bundled, here))
        answers = [
            sanitize(side["verdict"]) if side else "no such claim" for side in (before, after)
        ]
        same = answers[0] == answers[1]
        words = answers[0] if same else f"{answers[0]} in the bundle, {answers[1]} here"
        if same and before and after and before["numbers"] != after["numbers"]:
            words += ", with other numbers here"
        yield f"{sanitize(', '.join(filter(None, claim)))}: {words}", same
