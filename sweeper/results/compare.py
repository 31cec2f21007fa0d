"""Did anything change? Two sweeps of the same points, and whether a claim has another answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sweeper.results.collect import Records
from sweeper.results.differences import Differences, differences, flipped
from sweeper.results.table.points import code_apart
from sweeper.results.table.table import Table
from sweeper.store.errors import shown, wrong
from sweeper.store.plans import planned, plans
from sweeper.store.runs import RunStore


def compare(console: Console, outputs: Path, one: str, other: str) -> int:
    """Print what differs between two sweeps, the second less the first; 1 if an answer flipped.

    Args:
        outputs: the folder of what is named without one.
        one, other: an outputs folder, a plan by its number or file, an experiment; the latter two
            of another folder as in FOLDER/3 and FOLDER/fig1.

    Raises:
        UserError: there is no such thing, or the two have no experiment in common.
    """
    first, second = (_tables(outputs, word) for word in (one, other))
    pairs = [(first[name], second[name]) for name in first if name in second]
    if len(first) == len(second) == 1:
        pairs = [(next(iter(first.values())), next(iter(second.values())))]
    if not pairs:
        expected = f"sweeps of one experiment; {one} has {', '.join(first)}"
        raise wrong("compare", other, expected, "name an experiment of each, as in FOLDER/fig1")
    flips = 0
    for a, b in pairs:
        console.print(Text(f"{shown(a.name)}: {shown(other)} against {shown(one)}", "bold"))
        measured = (line for found in differences(a, b) for line in _lines(found))
        for line in (*_made_with(a, b), *measured):
            console.print(Text(f"  {line}"), soft_wrap=True)
        for before, after in flipped(a, b):
            flips += 1
            claim = f"{before.claim}, {before.measure}" if before.measure else before.claim
            words = f"  FLIPPED {shown(claim)}: {before.verdict} -> {after.verdict}"
            console.print(Text(words, "bold red"), soft_wrap=True)
    if not flips:
        console.print("No claim has another answer.")
    return 1 if flips else 0


def _made_with(one: Table, other: Table) -> Iterator[str]:
    """What the runs of the two were trained with beside what their plans say, where it differs."""
    for column in ("code", "torch", "device"):
        before, after = (
            ", ".join(sorted({str(row[column]) for row in table.rows if row.get(column)}))
            for table in (one, other)
        )
        apart = code_apart([*one.rows, *other.rows]) if column == "code" else None
        told = "" if apart is None else f" ({', '.join(apart) or 'nothing that trains'} changed)"
        if before != after:
            yield f"{column}: {before or 'none'} -> {after or 'none'}{told}"


def _lines(found: Differences) -> list[str]:
    values = f"{found.same} of {found.shared} values of shared seeds are equal to the last digit"
    head = f"{found.measure}: {found.points} points in both; {values}"
    if not found.found:
        return [f"{head}: nothing differs." if found.points else f"{head}."]
    return [f"{head}; where they are not:", *(f"  {one}" for one in found.found)]


def _tables(outputs: Path, word: str) -> dict[str, Table]:
    """The tables of what a person named, by experiment."""
    path = Path(word)
    if (path / "plans").is_dir():
        return _collected(path, planned(path))
    if path.suffix == ".json":
        path = path.parent.parent / path.stem
    folder = path.parent if path.parent != Path() else outputs
    if not path.name.isdigit():
        return _collected(folder, planned(folder, [path.name]))
    by_number = {plan["number"]: plan for plan in plans(folder)}
    if int(path.name) not in by_number:
        expected = f"the number of a plan in {folder / 'plans'}"
        raise wrong("compare", word, expected, "correct it, or name an outputs folder")
    plan = by_number[int(path.name)]
    return _collected(folder, dict.fromkeys(plan["experiments"], plan))


def _collected(folder: Path, found: Mapping[str, Mapping[str, Any]]) -> dict[str, Table]:
    records = Records(RunStore(folder))
    tables = {}
    for name, plan in found.items():
        [tables[name]] = records.tables({**plan, "experiments": {name: plan["experiments"][name]}})
    return tables
