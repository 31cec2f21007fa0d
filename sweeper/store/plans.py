"""What a plan is on disk: a numbered file, written once, the newest last."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError, shown, wrong
from sweeper.store.files import FORMAT, canonical, make_directory, publish_sealed, read_versioned
from sweeper.store.shape import NUMBER, PLAIN

_NUMBERED = re.compile(r"\d{4,9}\.json")
_SHAPE = {
    "experiments": {str: {"arms": {str: dict}}},
    "points": [{"experiment": str, "arm": str, "run": PLAIN, "seed": int, "values": dict,
                "matched": (dict, None)}],
    "runs": {str: {"size": {str: NUMBER}, "parent": (PLAIN, None)}},
    "estimate": {str: NUMBER},
}  # fmt: skip


# What the same plan made again may say otherwise.
_PASSING = ("format", "number", "estimate")


def write_plan(outputs: Path, plan: Mapping[str, Any]) -> Path:
    """Writes a plan under the next number; the path of the newest of its experiments where that
    says the same.

    `estimate`, seconds of training by run, is what was thought when it was first made.
    """
    paths = _paths(outputs)
    for path in reversed(paths):
        known = _read(path, [])
        if known and _content(known) == _content(plan):
            return path
        if known.get("experiments", {}).keys() & plan["experiments"].keys():
            break
    folder = outputs / "plans"
    make_directory(folder)
    for number in itertools.count(int(paths[-1].stem) + 1 if paths else 1):
        path = folder / f"{number:04d}.json"
        value = {**plan, "format": FORMAT, "number": number}
        if publish_sealed(path, value):
            break
    return path


def plans(outputs: Path) -> list[dict[str, Any]]:
    """All plans that can be read, oldest first."""
    return [plan for path in _paths(outputs) if (plan := _read(path, []))]


def damaged(outputs: Path) -> list[UserError]:
    """Why each plan that cannot be read cannot be."""
    faults: list[UserError] = []
    for path in _paths(outputs):
        _read(path, faults)
    return faults


def newest(outputs: Path) -> dict[str, dict[str, Any]]:
    """The newest plan of each experiment that was ever planned."""
    return {name: plan for plan in plans(outputs) for name in plan["experiments"]}


def planned(outputs: Path, experiments: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """The newest plan of each experiment named, or of all that were ever planned here.

    Raises:
        UserError: nothing was planned here, or no experiment of that name.
    """
    known = newest(outputs)
    if not known:
        for fault in damaged(outputs):
            raise fault
        remedy = "start with a sweep: -m experiment=fig1"
        raise wrong("outputs", outputs, "a folder with a plan", remedy)
    for name in experiments or ():
        if name not in known:
            expected = f"one that was planned ({', '.join(shown(one, 80) for one in known)})"
            remedy = "correct the name, or plan it with a sweep: -m experiment=..."
            raise wrong("experiment", name, expected, remedy)
    return {name: known[name] for name in experiments or known}


def _read(path: Path, faults: list[UserError]) -> dict[str, Any]:
    """What a plan says; of one that cannot be read nothing, and why is added to `faults`."""
    try:
        plan = read_versioned(path, keys=("experiments",), shape=_SHAPE) or {}
        _check_parents(path, plan.get("runs", {}))
    except UserError as fault:
        faults.append(fault)
        return {}
    return plan


def _check_parents(path: Path, runs: Mapping[str, Any]) -> None:
    for run in runs:
        line = [run]
        while parent := runs.get(line[-1], {}).get("parent"):
            if parent in line:
                told = f"run {shown(run)} would start from itself"
                raise UserError(f"{shown(path)} cannot be read: {told}; plan the sweep again.")
            line.append(parent)


def _paths(outputs: Path) -> list[Path]:
    found: Iterator[Path] = (outputs / "plans").glob("*.json")
    return sorted(
        (path for path in found if _NUMBERED.fullmatch(path.name)), key=lambda path: int(path.stem)
    )


def _content(plan: Mapping[str, Any]) -> str:
    return canonical({key: plan[key] for key in plan if key not in _PASSING})
