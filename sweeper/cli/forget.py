"""The command `forget`, which removes an experiment or a run from the outputs folder."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from sweeper.results.table import files_made_of
from sweeper.stages.publish import relative_path
from sweeper.stages.terminal import print_lines
from sweeper.store import mirrors
from sweeper.store.asked import HISTORY, note_forgotten
from sweeper.store.errors import UserError, as_typed, sanitize
from sweeper.store.plans import (
    changing_plans,
    damaged,
    path_of,
    planned,
    plans,
    rewrite,
    run_of_words,
    runs_of,
    stem,
    without,
)
from sweeper.store.runs import RunStore

Plan = Mapping[str, Any]


@dataclass(frozen=True)
class _Removal:
    """The runs and files to remove, and the plans to change.

    Attributes:
        runs: the ids of the runs to remove.
        files: the files and folders to remove.
        plans: the plans of the experiment to remove, without this experiment. They replace the
            stored plans. A plan without any experiment is removed.
        related: the runs of every plan that needs a run to remove. While one of them is in
            training, nothing is removed, since its sweep may still need the run.
        forgotten: the plans of the experiment to remove, without other experiments. They are
            appended to `history.jsonl`.
    """

    runs: Sequence[str]
    files: Sequence[Path]
    plans: Sequence[Plan]
    related: Sequence[str]
    forgotten: Sequence[Plan] = ()


def forget(console: Console, outputs: Path, name: str, *, yes: bool) -> bool:
    """Remove an experiment or a run, after asking the user. Return False if the user declines.

    If `name` is an experiment, remove its plans, tables and figures, and its runs that no other
    experiment uses. If `name` is a run, remove only this run, even if plans use it. In both cases,
    also remove the local W&B folders of the removed runs.

    Args:
        console: the console to print to.
        outputs: the outputs folder.
        name: the name of an experiment, the id of a run, or the description of a run, such as
            "fig1/fixed heads=8 seed=0".
        yes: whether to remove without asking.

    Raises:
        UserError: nothing was removed, for one of these reasons:

            - there is no experiment or run with this name
            - a sweep that may need the runs is training
            - a plan cannot be read
            - plans or files changed before the user answered
            - there is no terminal to ask in
    """
    store = RunStore(outputs)
    removal = _removal(store, name)
    print_lines(console, *_listed(store, removal))

    if not yes:
        if not sys.stdin.isatty():
            raise UserError(
                f"'forget {sanitize(name)}' has to ask before it removes these files, but there is "
                "no terminal to answer in. Add --yes to remove them without being asked."
            )
        answer = ""
        with suppress(EOFError):  # raised by Ctrl-D
            answer = input("Remove all of this? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            return False

    with changing_plans(outputs):
        # Another command may have planned or trained runs before the user answered.
        if _removal(store, name) != removal:
            raise UserError(
                f"Nothing of {sanitize(name)} was removed, because its plans or files changed "
                "after they were listed. Repeat the command."
            )
        _remove(store, name, removal)
    return True


def _remove(store: RunStore, name: str, removal: _Removal) -> None:
    """Remove runs and files, and change the plans.

    If the process is killed on the way, the same call completes the removal.
    """
    outputs = store.outputs
    paths = {run: store.run(run).path for run in removal.runs}
    # Do not read the results, since runs with a damaged result can be removed, too.
    done = [run for run, path in paths.items() if (path / "result.json").exists()]
    note_forgotten(outputs, name, removal.forgotten, done)
    # Before deleting anything, move it to a temporary folder, so that a killed command never leaves
    # half a run. Change the plans last, so that a repeated command still finds what to remove.
    for left in outputs.glob(".forget.*.tmp"):
        shutil.rmtree(left)  # of an earlier command that was killed
    with tempfile.TemporaryDirectory(
        dir=outputs, prefix=".forget.", suffix=".tmp"
    ) as folder:
        for number, path in enumerate([*paths.values(), *removal.files]):
            if path.exists():
                path.rename(Path(folder) / str(number))
    for plan in removal.plans:
        rewrite(outputs, plan)


def _removal(store: RunStore, name: str) -> _Removal:
    """Return what to remove for `name`, an experiment or a run.

    Raise UserError if the name is unknown, a plan cannot be read, or a run in `_Removal.related` is
    in training.
    """
    for unreadable in damaged(store.outputs):
        raise unreadable
    known = plans(store.outputs)
    removal = _experiment(store.outputs, known, name) or _run(store, known, name)
    if run := store.in_training(removal.related):
        raise UserError(
            f"{sanitize(name)} cannot be removed while run {run} is in training. Stop its sweep "
            "first."
        )
    mirrored = [
        path for run in removal.runs for path in mirrors.folders(store.outputs, run)
    ]
    return replace(removal, files=[*removal.files, *mirrored])


def _experiment(outputs: Path, known: Sequence[Plan], name: str) -> _Removal | None:
    """Return what to remove for the experiment `name`; None if no plan has this experiment."""
    own = [plan for plan in known if name in plan["experiments"]]
    if not own:
        return None
    left = [without(plan, name) for plan in own]
    others = [*(plan for plan in known if name not in plan["experiments"]), *left]

    used = {run for plan in others for run in _needed(plan)}
    runs = dict.fromkeys(run for plan in own for run in runs_of(plan, name))
    removed = [run for run in runs if run not in used]
    related = [*runs, *_related(known, {*removed})]

    mirrored = mirrors.folders(outputs, f"experiment-{stem(name)}")
    files = [*files_made_of(outputs, name), *mirrored]
    # If no experiment is left, remove the report as well.
    if not any(plan["experiments"] for plan in others):
        files += outputs.glob("report.html")

    kept = {one for plan in left for one in plan["experiments"]}
    forgotten = [without(plan, *kept) for plan in own]
    return _Removal(removed, files, left, related, forgotten)


def _run(store: RunStore, known: Sequence[Plan], name: str) -> _Removal:
    """Return what to remove for a run, given its id or its description.

    Raise UserError if there is no such run.
    """
    if "/" in name:
        name = run_of_words(store.outputs, name)
    if not (store.run(name).path / "run.json").is_file():
        if not known:
            planned(store.outputs)  # raises the UserError for a folder without plans
        raise UserError(
            f"There is no experiment or run named {sanitize(name)}; {as_typed('status')} --all "
            "lists them."
        )
    return _Removal([name], [], [], [name, *_related(known, {name})])


def _needed(plan: Plan) -> set[str]:
    """Return the ids of a plan's runs, and of the parents whose weights these runs start from."""
    parents = {about.get("parent") for about in plan["runs"].values()}
    return {*plan["runs"], *parents} - {None}


def _related(known: Sequence[Plan], runs: Set[str]) -> list[str]:
    """Return all runs of each plan that needs at least one of `runs`."""
    return [run for plan in known if _needed(plan) & runs for run in plan["runs"]]


def _listed(store: RunStore, removal: _Removal) -> Iterator[str]:
    yield "To be removed:"
    for run in removal.runs:
        yield f"  {relative_path(store.run(run).path)}  ({store.run(run).status().state})"
    for path in removal.files:
        yield f"  {relative_path(path)}"
    for plan in removal.plans:
        kept = ", ".join(plan["experiments"])
        note = f"  (only changed, since it also has {sanitize(kept)})" if kept else ""
        yield f"  {relative_path(path_of(store.outputs, plan))}{note}"
    yield f"  {HISTORY} keeps a record of this removal"
