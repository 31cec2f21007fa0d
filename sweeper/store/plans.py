"""What a plan is on disk: a numbered file, written once, the newest last."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.files import (
    FORMAT,
    canonical,
    make_directory,
    publish_json,
    publish_with_checksum,
    read_versioned,
    with_checksum,
)
from sweeper.store.validate import NUMBER, PLAIN

_NUMBERED = re.compile(r"\d{4,9}\.json")
_OLDER = re.compile(r"(.+)-(\d{4,9})", re.DOTALL)
_SHAPE = {
    "experiments": {str: {"arms": {str: dict}}},
    "points": [{"experiment": str, "arm": str, "run": PLAIN, "seed": int, "values": dict,
                "matched": (dict, None)}],
    "runs": {str: {"size": {str: NUMBER}, "parent": (PLAIN, None)}},
    "estimate": {str: NUMBER},
}  # fmt: skip


ERROR = 0.05
"""The chance that any claim of an experiment ever gets a wrong answer; it may ask for another."""

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
        if publish_with_checksum(path, value):
            break
    return path


def path_of(outputs: Path, plan: Mapping[str, Any]) -> Path:
    """The file of a plan."""
    return outputs / "plans" / f"{plan['number']:04d}.json"


def without(plan: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A plan less one of its experiments, and less the runs that none of the others has."""
    points = [point for point in plan["points"] if point["experiment"] != name]
    experiments = {one: about for one, about in plan["experiments"].items() if one != name}
    used = {run for one in experiments for run in runs_of(plan, one)}
    runs = {run: about for run, about in plan["runs"].items() if run in used}
    return {**plan, "experiments": experiments, "points": points, "runs": runs}


def runs_of(plan: Mapping[str, Any], name: str) -> dict[str, None]:
    """The runs of an experiment's points, and those that they start from."""
    found: dict[str, None] = {}
    for point in plan["points"]:
        run = point["run"] if point["experiment"] == name else None
        while run and run not in found:
            found[run] = None
            run = plan["runs"].get(run, {}).get("parent")
    return found


def rewrite(outputs: Path, plan: Mapping[str, Any]) -> None:
    """Make a plan what is left of it; without experiments it goes."""
    path = path_of(outputs, plan)
    if plan["experiments"]:
        publish_json(path, with_checksum(dict(plan)))
    else:
        path.unlink(missing_ok=True)


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


def older(name: str, number: int) -> str:
    """What an experiment of an older plan is called once a newer plan of that name is another."""
    return f"{name}-{number:04d}"


def replaced(outputs: Path, plan: Mapping[str, Any]) -> dict[str, int]:
    """The experiments of a plan that others of their names precede, by the newest plan of these.

    One precedes that has a point which the plan lacks; fewer seeds of a point are none.
    """
    found, left = {}, set(plan["experiments"])
    for path in reversed(_paths(outputs)):
        if not left:
            break
        before = _read(path, [])
        for name in left & before.get("experiments", {}).keys():
            left.discard(name)
            if not _holds(_runs(plan, name), _runs(before, name)):
                found[name] = int(path.stem)
    return found


def planned(outputs: Path, experiments: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """The newest plan of each experiment named, or of all that were ever planned here.

    One of an older plan is named with its number, as `older` has it.

    Raises:
        UserError: nothing was planned here, or no experiment of that name.
    """
    known = newest(outputs)
    known |= {name: plan for name in experiments or () if (plan := _older(outputs, name, known))}
    if not known:
        for fault in damaged(outputs):
            raise fault
        name = sanitize(next(iter(experiments or ()), "fig1"), 80)
        remedy = f"start with a sweep: python sweep.py -m experiment={name}"
        raise invalid_value("outputs", outputs, "a folder with a plan", remedy)
    for name in experiments or ():
        if name not in known:
            expected = f"one that was planned ({', '.join(sanitize(one, 80) for one in known)})"
            remedy = (
                f"correct the name, or plan it: python sweep.py -m experiment={sanitize(name, 80)}"
            )
            raise invalid_value("experiment", name, expected, remedy)
    return {name: known[name] for name in experiments or known}


def _older(outputs: Path, called: str, known: Collection[str]) -> dict[str, Any] | None:
    """The plan of one experiment that is called as `older` has it; None if there is none."""
    parts = _OLDER.fullmatch(called)
    if called in known or parts is None:
        return None
    for plan in plans(outputs):
        if plan.get("number") == int(parts[2]) and parts[1] in plan["experiments"]:
            return _alone(plan, parts[1], called)
    return None


def _alone(plan: Mapping[str, Any], name: str, called: str) -> dict[str, Any]:
    """A plan less all but one experiment, which has another name."""
    points = [{**p, "experiment": called} for p in plan["points"] if p["experiment"] == name]
    found = {**plan, "experiments": {called: plan["experiments"][name]}, "points": points}
    if "rounds" in plan:
        found["rounds"] = [{**r, "verdicts": {called: r["verdicts"][name]}} for r in plan["rounds"]]
    return found


def _runs(plan: Mapping[str, Any], name: str) -> dict[str, dict[int, str]]:
    """By point of an experiment, the run of each seed."""
    found: dict[str, dict[int, str]] = {}
    for point in plan["points"]:
        if point["experiment"] == name:
            place = canonical([point["arm"], point.get("task"), point["values"]])
            found.setdefault(place, {})[point["seed"]] = point["run"]
    return found


def _holds(these: Mapping[str, Mapping[int, str]], those: Mapping[str, Mapping[int, str]]) -> bool:
    """Whether these have all points of those: with the same runs of the seeds they share."""
    return all(
        (own := these.get(place, {})).keys() & runs.keys()
        and all(own.get(seed, run) == run for seed, run in runs.items())
        for place, runs in those.items()
    )


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
                told = f"run {sanitize(run)} would start from itself"
                raise UserError(f"{sanitize(path)} cannot be read: {told}; plan the sweep again.")
            line.append(parent)


def _paths(outputs: Path) -> list[Path]:
    found: Iterator[Path] = (outputs / "plans").glob("*.json")
    return sorted(
        (path for path in found if _NUMBERED.fullmatch(path.name)), key=lambda path: int(path.stem)
    )


def _content(plan: Mapping[str, Any]) -> str:
    return canonical({key: plan[key] for key in plan if key not in _PASSING})
