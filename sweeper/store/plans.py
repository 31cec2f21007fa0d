"""Plans on disk: numbered files, each written once, the newest last."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeper.store import files
from sweeper.store.errors import UserError, as_typed, invalid_value, sanitize
from sweeper.store.registry import ROOT

_NUMBERED = re.compile(r"\d{4,9}\.json")
_SHAPE = {
    "number": int,
    "experiments": {str: {"arms": {str: dict}}},
    "points": [{"experiment": str, "arm": str, "run": files.PLAIN, "seed": int, "values": dict,
                "matched": dict | None}],
    "runs": {str: {"size": {str: files.NUMBER}, "parent": files.PLAIN_OR_NONE}},
    "estimate": {str: files.NUMBER},
}  # fmt: skip


ERROR = 0.05
"""The default chance that any claim of an experiment ever gets a wrong answer."""

# Keys in which the same plan may differ when it is made again.
_VOLATILE = ("format", "number", "estimate")


def write_plan(outputs: Path, plan: Mapping[str, Any]) -> Path:
    """Write a plan under the next number, unless the newest of its experiments is the same.

    Return its path. Its `estimate` (seconds of training by run) is that of its first writing.
    """
    paths = _paths(outputs)
    for path in reversed(paths):
        known = _read(path, [])
        if known and _content(known) == _content(plan):
            return path
        if known.get("experiments", {}).keys() & plan["experiments"].keys():
            break
    folder = outputs / "plans"
    files.make_directory(folder)
    for number in itertools.count(int(paths[-1].stem) + 1 if paths else 1):
        path = folder / f"{number:04d}.json"
        value = {**plan, "format": files.FORMAT, "number": number}
        if files.publish_with_checksum(path, value):
            break
    return path


def path_of(outputs: Path, plan: Mapping[str, Any]) -> Path:
    """Return the file of a plan."""
    return outputs / "plans" / f"{plan['number']:04d}.json"


def without(plan: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a plan without these experiments and without the runs that only they use."""
    points = [point for point in plan["points"] if point["experiment"] not in names]
    experiments = {one: about for one, about in plan["experiments"].items() if one not in names}
    used = {run for one in experiments for run in runs_of(plan, one)}
    runs = {run: about for run, about in plan["runs"].items() if run in used}
    return {**plan, "experiments": experiments, "points": points, "runs": runs}


def runs_of(plan: Mapping[str, Any], name: str) -> dict[str, None]:
    """Return the runs of an experiment's points and the runs that they start from."""
    found: dict[str, None] = {}
    for point in plan["points"]:
        run = point["run"] if point["experiment"] == name else None
        while run and run not in found:
            found[run] = None
            run = plan["runs"].get(run, {}).get("parent")
    return found


def rewrite(outputs: Path, plan: Mapping[str, Any]) -> None:
    """Write a plan over its file; remove the file if the plan has no experiments left."""
    path = path_of(outputs, plan)
    if plan["experiments"]:
        files.publish_json(path, files.with_checksum(dict(plan)))
    else:
        path.unlink(missing_ok=True)


def plans(outputs: Path) -> list[dict[str, Any]]:
    """Return all plans that can be read, oldest first."""
    return [plan for path in _paths(outputs) if (plan := _read(path, []))]


def damaged(outputs: Path) -> list[UserError]:
    """Return the error of each plan that cannot be read; one that this process read is skipped."""
    faults: list[UserError] = []
    for path in _paths(outputs):
        if _state(path) not in _readable:
            _read(path, faults)
    return faults


def newest(outputs: Path) -> dict[str, dict[str, Any]]:
    """Return the newest plan of each experiment that was ever planned."""
    return {name: plan for plan in plans(outputs) for name in plan["experiments"]}


def older(name: str, number: int) -> str:
    """Return the name of an experiment of an older plan, once a newer plan took its name."""
    return f"{name}-{number:04d}"


def replaced(outputs: Path, plan: Mapping[str, Any]) -> dict[str, int]:
    """Return the experiments that this plan replaces under their names, by plan number.

    An older experiment is replaced if it has a point that this plan lacks; a plan that only adds
    seeds replaces nothing.
    """
    found = {}
    for name, number, before, now in _points_of_older(outputs, plan):
        changed = any(now.get(seed, run) != run for seed, run in before.items())
        if changed or not now.keys() & before.keys():
            found[name] = number
    return found


def with_other_seeds(outputs: Path, plan: Mapping[str, Any]) -> dict[str, int]:
    """Return, by experiment, the number of an earlier plan with seeds that this plan lacks."""
    points = _points_of_older(outputs, plan)
    return {name: number for name, number, before, now in points if before.keys() - now.keys()}


def _points_of_older(
    outputs: Path, plan: Mapping[str, Any]
) -> Iterator[tuple[str, int, dict[int, str], dict[int, str]]]:
    """Yield every point of the newest older plan of each experiment of this plan.

    That is: the experiment, the number of the older plan, and the point's runs by seed in both.
    """
    left = {*plan["experiments"]}
    for path in reversed(_paths(outputs)):
        if not left:
            return
        before = _read(path, [])
        for name in left & before.get("experiments", {}).keys():
            left.discard(name)
            now = _runs_by_seed(plan, name)
            for point, runs in _runs_by_seed(before, name).items():
                yield name, int(path.stem), runs, now.get(point, {})


def planned(outputs: Path, experiments: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the newest plan of each named experiment, or of all that were ever planned.

    An experiment of an older plan is named with its number, as in `older`. Raise UserError if
    nothing was planned here, or no experiment of that name.
    """
    wanted, known = set(experiments or ()), dict[str, dict[str, Any]]()
    for path in reversed(_paths(outputs)):
        if wanted and wanted <= known.keys():  # no older plan is needed
            break
        plan = _read(path, [])
        known = {name: plan for name in plan.get("experiments", {})} | known
        for own in plan.get("experiments", {}):
            if (name := older(own, plan["number"])) in wanted:
                known.setdefault(name, _alone(plan, own, name))
    shipped = {path.stem for path in (ROOT / "conf" / "experiment").glob("*.yaml")}
    if not known:
        for fault in damaged(outputs):
            raise fault
        name = next((one for one in experiments or () if one in shipped), "fig1")
        remedy = f"start with a sweep: {as_typed('sweep')} -m experiment={name}"
        raise invalid_value("outputs", outputs, "a folder with a plan", remedy)
    for name in experiments or ():
        if name not in known:
            expected = f"one that was planned ({', '.join(sanitize(one, 80) for one in known)})"
            remedy = "correct the name"
            if name in shipped:
                remedy += f", or plan it: {as_typed('sweep')} -m experiment={name}"
            raise invalid_value("experiment", name, expected, remedy)
    return {name: known[name] for name in experiments or known}


def _alone(plan: Mapping[str, Any], experiment: str, name: str) -> dict[str, Any]:
    """Return a plan with one of its experiments, under another name."""
    own = without(plan, *(plan["experiments"].keys() - {experiment}))
    rounds = [
        {**one, "verdicts": {name: one["verdicts"][experiment]}} for one in plan.get("rounds", [])
    ]
    return {
        **own,
        "experiments": {name: plan["experiments"][experiment]},
        "points": [{**point, "experiment": name} for point in own["points"]],
        **({"rounds": rounds} if rounds else {}),
    }


def _runs_by_seed(plan: Mapping[str, Any], name: str) -> dict[str, dict[int, str]]:
    """Return the run of each seed, by point of an experiment."""
    found: dict[str, dict[int, str]] = {}
    for point in plan["points"]:
        if point["experiment"] == name:
            place = files.canonical([point["arm"], point.get("task"), point["values"]])
            found.setdefault(place, {})[point["seed"]] = point["run"]
    return found


_readable: set[tuple[Path, int, int]] = set()


def _state(path: Path) -> tuple[Path, int, int]:
    """Return what changes if a plan is written again."""
    try:
        found = path.lstat()
    except FileNotFoundError:  # it was forgotten meanwhile
        return path, 0, 0
    return path, found.st_ino, found.st_mtime_ns


def _read(path: Path, faults: list[UserError]) -> dict[str, Any]:
    """Return a plan; on an error return an empty one and add the error to `faults`."""
    try:
        state = _state(path)
        plan = files.read_versioned(path, keys=("experiments", "number"), shape=_SHAPE) or {}
        for run in (runs := plan.get("runs", {})):
            line = [run]
            while parent := runs.get(line[-1], {}).get("parent"):
                if parent in line:
                    unreadable = f"{sanitize(path)} cannot be read: run {sanitize(run)}"
                    raise UserError(f"{unreadable} would start from itself; plan the sweep again.")
                line.append(parent)
    except UserError as fault:
        faults.append(fault)
        return {}
    _readable.add(state)
    return plan


def _paths(outputs: Path) -> list[Path]:
    folder = outputs / "plans"
    found = [path for path in folder.glob("*.json") if _NUMBERED.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.stem))


def _content(plan: Mapping[str, Any]) -> str:
    return files.canonical({key: plan[key] for key in plan if key not in _VOLATILE})
