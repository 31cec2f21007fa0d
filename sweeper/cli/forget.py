"""Takes away what an experiment has left, or one run: it is listed first, and asked for."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sweeper.publish import relative_path
from sweeper.results.table import files_made_of
from sweeper.store.archive import find
from sweeper.store.code import REVISION
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.files import present
from sweeper.store.plans import older, path_of, plans, rewrite, runs_of, without
from sweeper.store.runs import RunStore, State

UNZIP = "unzip the archive in the outputs folder and remove it first"
Plan = Mapping[str, Any]


@dataclass(frozen=True)
class _Going:
    """What is to be removed.

    Attributes:
        runs, files: those that go.
        plans: what is left of the plans that change; those of which nothing is left go.
        near: runs that must not be in training meanwhile, those that go among them.
        told: what else is to be known, in sentences.
    """

    runs: Sequence[str]
    files: Sequence[Path]
    plans: Sequence[Plan]
    near: Sequence[str]
    told: Sequence[str]


def forget(console: Console, outputs: Path, name: str, *, yes: bool) -> bool:
    """Remove what goes by a name, once that is agreed to; whether it was.

    Of an experiment: its plans, tables and figures, and its runs that no other plan has. Of a run:
    it alone, whatever plan has it. With either go the pinned states of the code that nothing needs
    any more.

    Raises:
        UserError: there is no such thing, or it is being trained; nothing was removed.
    """
    store = RunStore(outputs)
    going = _experiment(outputs, name) or _run(store, outputs, name)
    for run in going.near:
        if store.run(run).status().state is State.RUNNING:
            raise UserError(f"{sanitize(name)}: run {run} is being trained; stop that sweep first.")
    if packed := [run for run in going.runs if find(outputs, run)]:
        words = f"{len(packed)} of its runs lie in outputs/archives"
        raise invalid_value("forget", name, f"runs in folders of their own, but {words}", UNZIP)
    going = replace(going, files=[*going.files, *_unused_code(store, going.runs)])
    for line in _listed(store, going):
        console.print(Text(line), soft_wrap=True)
    if not (yes or _agreed(name)):
        return False
    # In one folder, so that whatever ends this leaves no half of a run; plans last, so that it can
    # be typed again.
    with tempfile.TemporaryDirectory(dir=outputs, prefix=".forget.", suffix=".tmp") as folder:
        gone = [*(store.run(run).path for run in going.runs), *going.files]
        for number, path in enumerate(path for path in gone if path.exists()):
            path.rename(Path(folder) / str(number))
    for plan in going.plans:
        rewrite(outputs, plan)
    return True


def _experiment(outputs: Path, name: str) -> _Going | None:
    """What goes with an experiment, in all plans or, named with the number of a plan, in that."""
    known = plans(outputs)
    every = [(plan, one) for plan in known for one in plan["experiments"]]
    parts = [(plan, one) for plan, one in every if name in (one, older(one, plan["number"]))]
    if not parts:
        return None
    own = parts[0][1]
    left = [without(plan, own) for plan, _ in parts]
    numbers = {plan["number"] for plan in left}
    others = [*(plan for plan in known if plan["number"] not in numbers), *left]
    used = {run for plan in others for run in plan["runs"]}
    runs = dict.fromkeys(run for plan, _ in parts for run in runs_of(plan, own))
    names = [name, *(older(own, number) for number in numbers if name == own)]
    stay = len(used & runs.keys())
    kept = [f"{stay} runs stay: other plans have them"] if stay else []
    files = [path for one in names for path in files_made_of(outputs, one)]
    return _Going([run for run in runs if run not in used], files, left, list(runs), kept)


def _run(store: RunStore, outputs: Path, name: str) -> _Going:
    known = plans(outputs)
    if not present(store.run(name).path / "run.json"):
        names = dict.fromkeys(one for plan in known for one in plan["experiments"])
        expected = f"the id of a run, or an experiment that was planned ({', '.join(names)})"
        raise invalid_value("forget", name, expected, "python -m sweeper status lists both")
    users = dict.fromkeys(p["experiment"] for plan in known for p in plan["points"]
                          if p["run"] == name)  # fmt: skip
    children = [run for plan in known for run, about in plan["runs"].items()
                if about.get("parent") == name]  # fmt: skip
    told = [f"planned in {', '.join(users)}: typed again, it is trained again"]
    return _Going([name], [], [], [name, *children], told if users else [])


def _unused_code(store: RunStore, gone: Sequence[str]) -> list[Path]:
    """The pinned states of the code that no run which stays was trained by; none as long as one of
    these is not done, whose job may wait to start from one."""
    stay = [store.run(run) for run in store.ids() if run not in gone]
    if any(run.status().state is not State.DONE for run in stay):
        return []
    try:
        used = {attempt.info().get("code") for run in stay for attempt in run.attempts()}
    except UserError:  # it cannot be read by what the run was trained
        return []
    pinned = sorted((store.outputs / "code").glob(f"*/{REVISION}"))
    return [path.parent for path in pinned if path.read_text("utf-8").strip() not in used]


def _listed(store: RunStore, going: _Going) -> Iterator[str]:
    yield "to be removed:"
    for run in going.runs:
        yield f"  {relative_path(store.run(run).path)}  ({store.run(run).status().state})"
    for path in (*going.files, *(path_of(store.outputs, plan) for plan in going.plans)):
        yield f"  {relative_path(path)}"
    for plan in going.plans:
        if plan["experiments"]:
            yield f"  of plan {plan['number']} {sanitize(', '.join(plan['experiments']))} stays"
    yield from (f"  {sanitize(line)}" for line in going.told)


def _agreed(name: str) -> bool:
    if not sys.stdin.isatty():
        raise invalid_value("forget", name, "an answer, and nobody can be asked here", "give --yes")
    return input("Remove all of it? [y/N] ").strip().lower() in ("y", "yes")
