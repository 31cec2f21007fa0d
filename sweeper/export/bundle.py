"""Bundles of results: written for somebody who doubts them, and judged again from the records.

A bundle holds records without weights, tables, figures and claims as made from them, the states of
the code that trained, and the lock file.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

from sweeper.export.pack import check_output, open_export, run_files, write_export
from sweeper.plan.experiment import SUFFIX
from sweeper.results.collect import collect, write_tables
from sweeper.results.figures import write_figures
from sweeper.results.judge import judge
from sweeper.results.table import Table, exported
from sweeper.store import registry
from sweeper.store.archive import Content, files_below
from sweeper.store.code import DIFF, REVISION, revisions
from sweeper.store.errors import UserError, as_typed, sanitize
from sweeper.store.files import FORMAT, as_json, read_object, with_checksum
from sweeper.store.numbers import plural
from sweeper.store.plans import newest, planned, without
from sweeper.store.runs import RunStore

LOCK = "requirements/lock.txt"

README = """\
# {name}

Results of {experiments}: the records of {runs} training runs (without weights), the tables, figures
and claims made from them, and the versions of libraries that the program is tested with.

    {judge} {name}.zip

judges the claims again from these records and draws the figures again,
without a network. It prints every answer that differs. `manifest.json` has the size and the SHA-256
of every file. Code that trained: {code}.
"""

_CLAIMS = {"verdicts": [{"claim": str, "measure": str, "verdict": str, "numbers": dict}]}
Answers = dict[tuple[str, str], dict[str, Any]]


class Bundle(BaseModel):
    """The keys of the manifest of a bundle."""

    experiments: list[str]


def write_bundle(outputs: Path, names: Sequence[str], path: Path) -> Path:
    """Write the bundle of experiments as they are now; equal records give equal bytes.

    Raise UserError if one was never planned, has a run in training, or cannot be judged.
    """
    check_output(path)
    tuned = [name + SUFFIX for name in names if name + SUFFIX in newest(outputs)]
    plans = planned(outputs, list(dict.fromkeys([*names, *tuned])))
    store = RunStore(outputs)
    files: dict[str, Content] = {}
    runs: dict[str, None] = {}
    for number, (experiment, plan) in enumerate(plans.items(), 1):
        own = without(plan, *(plan["experiments"].keys() - {experiment}))
        text = as_json(with_checksum({**own, "format": FORMAT, "number": number}))
        files[f"plans/{number:04d}.json"] = text.encode()
        runs |= dict.fromkeys(own["runs"])
    if busy := store.in_training(runs):
        raise UserError(f"{busy} is in training; bundle it once that is done, or stop it.")
    for id in runs:
        files |= run_files(store.run(id), weights=False)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        tables = collect(outputs, list(plans))
        write_tables(made, tables)
        judge(made, tables)
        write_figures(made, tables)
        files |= {name: made / name for name in files_below(made)}
        # A run that never began has no code.
        code = sorted({str(row["code"]) for table in tables for row in table.rows
                       if row.get("code")})  # fmt: skip
        for revision in (outputs / "code").glob(f"*/{REVISION}"):
            if not {*code}.isdisjoint(revisions(revision.parent)):
                for state in (revision, revision.with_name(DIFF)):
                    if state.is_file():
                        files[f"code/{state.parent.name}/{state.name}"] = state
        if (registry.ROOT / LOCK).is_file():
            files[LOCK] = registry.ROOT / LOCK
        files["README.md"] = README.format(
            judge=as_typed("judge"),
            name=path.stem,
            experiments=", ".join(plans),
            runs=len(runs),
            code=", ".join(code) or "unknown",
        ).encode()
        about = {"experiments": list(plans), "code": code}
        [written] = write_export(path, "bundle", files, about)
    return written


def judge_again(console: Console, path: Path, into: Path) -> int:
    """Print the answer to each claim in a bundle and here; return 1 if any differs.

    Tables and figures are made in `into`. Raise UserError if the file is no bundle, is damaged, or
    cannot be judged.
    """
    with tempfile.TemporaryDirectory() as folder:
        outputs = Path(folder)
        with open_export(path, "bundle", Bundle) as (archive, manifest):
            archive.unpack(outputs)
        tables = collect(outputs, manifest.experiments)
        write_tables(into, tables)
        judge(into, tables)
        figures = write_figures(into, tables)
        differ = False
        for table in tables:
            bundled, here = _answers(outputs, table), _answers(into, table)
            for claim in dict.fromkeys([*bundled, *here]):
                before, after = (
                    sanitize(side[claim]["verdict"]) if claim in side else "no such claim"
                    for side in (bundled, here)
                )
                words, style = before, ""
                if before != after:
                    differ = True
                    words, style = f"{before} in the bundle, {after} here", "bold red"
                elif bundled[claim]["numbers"] != here[claim]["numbers"]:
                    words += ", with other numbers here"
                title = sanitize(", ".join(filter(None, claim)))
                line = Text(f"{sanitize(table.name)}: {title}: {words}", style)
                console.print(line, soft_wrap=True)
    result = "A verdict differs." if differ else "All verdicts equal those of the bundle."
    drawn = {path.stem for path in figures}  # in several formats
    counts = f"{plural(len(tables), 'table')}, {plural(len(drawn), 'figure')}"
    console.print(Text(f"{result} {counts}: {into}"))
    return int(differ)


def _answers(outputs: Path, table: Table) -> Answers:
    """Read the verdicts of a table by claim and measure."""
    path = exported(outputs, table, ".claims.json")
    found = read_object(path, keys=_CLAIMS, shape=_CLAIMS)
    if found is None:
        raise UserError(f"the bundle has no {path.name}, which holds the answers to its claims.")
    return {(one["claim"], one["measure"]): one for one in found["verdicts"]}
