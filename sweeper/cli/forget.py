"""The `forget` command: removes experiments and runs from the outputs folder."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sweeper.publish import relative_path
from sweeper.results.table import files_made_of, stem
from sweeper.store import mirrors
from sweeper.store.asked import HISTORY, note_forgotten
from sweeper.store.code import REVISION, revisions
from sweeper.store.errors import UserError, as_typed, invalid_value, sanitize
from sweeper.store.numbers import plural
from sweeper.store.plans import (
    path_of,
    planned,
    plans,
    rewrite,
    run_of_words,
    runs_of,
    without,
)
from sweeper.store.runs import RunStore, State

Plan = Mapping[str, Any]


@dataclass(frozen=True)
class _Removal:
    """The runs, files and plans to remove."""

    runs: Sequence[str]
    files: Sequence[Path]
    plans: Sequence[Plan]  # without the removed experiment; an empty one is removed
    near: Sequence[
        str
    ]  # none may be in training: those of the plans that need a removed run
    notes: Sequence[str]  # for the user
    forgotten: Sequence[Plan] = ()  # what the removed plans asked of their runs


def forget(console: Console, outputs: Path, name: str, *, yes: bool) -> bool:
    """Remove an experiment or a run once the user agrees; return whether it was removed.

    An experiment goes with its plans, tables and figures, and with the runs that no other plan has.
    A run goes alone, whatever plan has it. Pinned code that no run needs goes too, and the folders
    that W&B keeps here of what goes.

    Raises:
        UserError: nothing has this name, or it is being trained; nothing was removed.
    """
    store, known = RunStore(outputs), plans(outputs)
    if "/" in name:
        name = run_of_words(outputs, name)
    removal = _experiment(outputs, known, name) or _run(store, known, name)
    if run := store.in_training(removal.near):
        raise UserError(
            f"{sanitize(name)}: run {run} is being trained; stop that sweep first."
        )
    mirrored = [path for run in removal.runs for path in mirrors.folders(outputs, run)]
    unused = _unused_code(store, removal.runs)
    removal = replace(removal, files=[*removal.files, *mirrored, *unused])
    for line in _listed(store, removal):
        console.print(Text(line), soft_wrap=True)
    if not yes:
        if not sys.stdin.isatty():
            expected = "an answer, but there is no terminal to ask"
            raise invalid_value("forget", name, expected, "give --yes")
        answer = ""
        with suppress(EOFError):  # Ctrl-D
            answer = input("Remove all of it? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            return False
    done = [run for run in removal.runs if store.run(run).result() is not None]
    # Into one folder first: a kill leaves no half of a run. Plans last: it can be repeated.
    for left in outputs.glob(".forget.*.tmp"):  # of a command that was killed
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(
        dir=outputs, prefix=".forget.", suffix=".tmp"
    ) as folder:
        gone = [*(store.run(run).path for run in removal.runs), *removal.files]
        for number, path in enumerate(path for path in gone if path.exists()):
            path.rename(Path(folder) / str(number))
    note_forgotten(outputs, name, removal.forgotten, done)
    for plan in removal.plans:
        rewrite(outputs, plan)
    return True


def _experiment(outputs: Path, known: Sequence[Plan], name: str) -> _Removal | None:
    """Return the removal of an experiment from all plans; None if no plan has it."""
    own = [plan for plan in known if name in plan["experiments"]]
    if not own:
        return None
    left = [without(plan, name) for plan in own]
    others = [*(plan for plan in known if name not in plan["experiments"]), *left]
    used = {run for plan in others for run in _needed(plan)}
    runs = dict.fromkeys(run for plan in own for run in runs_of(plan, name))
    stay = len(used & runs.keys())
    words = "stays: another plan has it" if stay == 1 else "stay: other plans have them"
    notes = [f"{plural(stay, 'run')} {words}"] if stay else []
    files = files_made_of(outputs, name) + mirrors.folders(
        outputs, f"experiment-{stem(name)}"
    )
    if not any(plan["experiments"] for plan in others):  # nothing is left to report
        files += outputs.glob("report.html")
    removed = [run for run in runs if run not in used]
    near = [*runs, *_near(known, {*removed})]
    beside = {one for plan in own for one in plan["experiments"] if one != name}
    forgotten = [without(plan, *beside) for plan in own]
    return _Removal(removed, files, left, near, notes, forgotten)


def _run(store: RunStore, known: Sequence[Plan], name: str) -> _Removal:
    if not (store.run(name).path / "run.json").is_file():
        if not known:
            planned(store.outputs)  # raises: there is nothing to forget
        lists = f"{as_typed('status')} --all lists them"
        raise UserError(
            f"There is no experiment or run named {sanitize(name)}; {lists}."
        )
    users = dict.fromkeys(p["experiment"] for plan in known for p in plan["points"]
                          if p["run"] == name)  # fmt: skip
    notes = [f"planned in {', '.join(users)}: repeating the sweep trains it again"]
    return _Removal(
        [name], [], [], [name, *_near(known, {name})], notes if users else []
    )


def _needed(plan: Plan) -> set[str]:
    """Return the runs of a plan, and those of other plans that they start from."""
    parents = {
        about["parent"] for about in plan["runs"].values() if about.get("parent")
    }
    return {*plan["runs"], *parents}


def _near(known: Sequence[Plan], runs: Set[str]) -> list[str]:
    """Return all runs of the plans that need one of these: a sweep of them may wait for it."""
    return [run for plan in known if _needed(plan) & runs for run in plan["runs"]]


def _unused_code(store: RunStore, gone: Sequence[str]) -> list[Path]:
    """Return the pinned code that trained none of the remaining runs.

    Return none while one of these is not done: its job may wait to start from pinned code.
    """
    stay = [store.run(run) for run in store.ids() if run not in gone]
    if any(run.status().state is not State.DONE for run in stay):
        return []
    try:
        used = {
            attempt.info().get("code") for run in stay for attempt in run.attempts()
        }
    except UserError:  # the code of a run cannot be read
        return []
    pinned = [
        path.parent for path in sorted((store.outputs / "code").glob(f"*/{REVISION}"))
    ]
    return [folder for folder in pinned if used.isdisjoint(revisions(folder))]


def _listed(store: RunStore, removal: _Removal) -> Iterator[str]:
    yield "to be removed:"
    for run in removal.runs:
        yield f"  {relative_path(store.run(run).path)}  ({store.run(run).status().state})"
    for path in (
        *removal.files,
        *(path_of(store.outputs, plan) for plan in removal.plans),
    ):
        yield f"  {relative_path(path)}"
    for plan in removal.plans:
        if plan["experiments"]:
            yield f"  of plan {plan['number']} {sanitize(', '.join(plan['experiments']))} stays"
    yield from (f"  {sanitize(line)}" for line in removal.notes)
    yield f"  {HISTORY} keeps a line of it"
