"""What a bundle holds: all that an experiment rests on and what was made of it, for whoever doubts.

Records without weights, tables, figures and claims as made from them, which states of the code
trained, the lock file, and a description that archives of research data read (crate.py).
`python -m sweeper judge` opens it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeper.carry.archive import Content, write_archive
from sweeper.carry.crate import METADATA, described, versions
from sweeper.carry.run_files import folder_files, run_files
from sweeper.plan.trials import SUFFIX
from sweeper.results.collect import collect, write_tables
from sweeper.results.draw import write_figures
from sweeper.results.judge import judge
from sweeper.store import registry
from sweeper.store.code import DIFF, REVISION
from sweeper.store.errors import UserError
from sweeper.store.files import FORMAT, as_json, with_checksum
from sweeper.store.plans import newest, planned, without
from sweeper.store.runs import RunStore, State

KIND = "bundle"
LOCK = "requirements/lock.txt"

README = """\
# {name}

What {experiments} came to: the records of {runs} training runs (without weights), the tables,
figures and claims made of them, and the versions of libraries that the program is tested with.

    python -m sweeper judge {name}.tar

in a checkout of the program judges the claims anew from these records, draws the figures again,
offline, and says where an answer is another. `manifest.json` has the SHA-256 of every file,
`ro-crate-metadata.json` says what each one is (RO-Crate 1.1). Code that trained: {code}.
"""


def write_bundle(outputs: Path, names: Sequence[str], path: Path) -> Path:
    """Write the bundle of experiments as they stand; equal records give equal bytes.

    Raises:
        UserError: one was never planned, has a run that is being trained, or cannot be judged.
    """
    tuned = [name + SUFFIX for name in names if name + SUFFIX in newest(outputs)]
    plans = planned(outputs, list(dict.fromkeys([*names, *tuned])))
    store = RunStore(outputs)
    runs = list(dict.fromkeys(run for _, plan in _apart(plans) for run in plan["runs"]))
    files: dict[str, Content] = dict(_records(store, plans, runs))
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        tables = collect(outputs, list(plans))
        write_tables(made, tables)
        judge(made, tables)
        write_figures(made, tables)
        files |= folder_files(made, made)
        code = versions(tables)
        files |= _states(outputs / "code", code)
        if (registry.ROOT / LOCK).is_file():
            files[LOCK] = registry.ROOT / LOCK
        name = path.name.partition(".")[0]
        told = {"name": name, "experiments": ", ".join(plans), "runs": len(runs)}
        files["README.md"] = README.format(**told, code=", ".join(code) or "unknown").encode()
        dates = [attempt.info()["started"] for run in runs for attempt in store.run(run).attempts()]
        files[METADATA] = described(name, tables, sorted(files), max(dates, default="")).encode()
        about = {"kind": KIND, "experiments": list(plans), "code": code}
        [written] = write_archive(path, files, about, None)
    return written


def _states(folder: Path, codes: Sequence[str]) -> dict[str, Content]:
    """Of each state of the code that trained its commit, and what was changed since."""
    kept = [one for one in folder.glob("*/" + REVISION) if one.read_text("utf-8").strip() in codes]
    return {
        f"code/{path.parent.name}/{path.name}": path
        for revision in kept
        for path in (revision, revision.with_name(DIFF))
        if path.is_file()
    }


def _apart(plans: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The plan of each experiment, less what other experiments have in it."""
    for name, plan in plans.items():
        own = dict(plan)
        for other in plan["experiments"].keys() - {name}:
            own = without(own, other)
        yield name, own


def _records(
    store: RunStore, plans: Mapping[str, Mapping[str, Any]], runs: Sequence[str]
) -> Iterator[tuple[str, Content]]:
    for number, (_, plan) in enumerate(_apart(plans), 1):
        text = as_json(with_checksum({**plan, "format": FORMAT, "number": number}))
        yield f"plans/{number:04d}.json", text.encode()
    for id in runs:
        run = store.run(id)
        if run.status().state is State.RUNNING:
            raise UserError(f"{id} is being trained; bundle it once that is done, or stop it.")
        yield from run_files(run, weights=False).items()
