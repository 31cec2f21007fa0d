"""Plans on disk. A plan lists the runs of a sweep, and the points of experiments that use them.

Plans are numbered. A newer plan has a higher number.
"""

import hashlib
import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Required

from pydantic import Field
from typing_extensions import TypedDict

from sweeper.store import files
from sweeper.store.errors import UserError, as_typed, invalid_value, sanitize
from sweeper.store.liveness import held
from sweeper.store.numbers import plural
from sweeper.store.registry import ROOT
from sweeper.store.runs import Run

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NUMBERED = re.compile(r"\d{4,9}\.json")
_TRAINS_NOTHING = re.compile(r"\+{0,2}hydra\.sweeper\.(plan_only|dry_run)=")
Name = Annotated[str, Field(pattern=rf"^{files.PLAIN.pattern}$")]


class _Experiment(TypedDict, total=False):
    arms: dict[str, dict[str, Any]]


class _Point(TypedDict, total=False):
    experiment: str
    arm: str
    run: Name
    seed: int
    values: dict[str, Any]
    matched: dict[str, Any] | None


class _Run(TypedDict, total=False):
    size: dict[str, float]
    parent: Name | None


class Plan(TypedDict, total=False):
    """The keys of a plan's file that this module checks. Other modules read more keys."""

    number: Required[int]
    experiments: Required[dict[str, _Experiment]]
    points: list[_Point]
    runs: dict[str, _Run]
    estimate: dict[str, float]


ERROR = 0.05
"""The default of `error`, the accepted probability that an experiment has any wrong verdict."""

# Plans count as equal if they differ only in these keys.
_VOLATILE = ("format", "number", "estimate", "asked")


def write_plan(outputs: Path, plan: Mapping[str, Any]) -> Path:
    """Write a plan under the next number and return its path.

    If the newest plan of these experiments has the same content, write nothing and return its path.
    So a repeated command keeps the `estimate` of durations that was made before training.
    """
    paths = _paths(outputs)
    for path, known in _readable(reversed(paths)):
        if _content(known) == _content(plan):
            return path
        if known["experiments"].keys() & plan["experiments"].keys():
            break
    files.make_directory(outputs / "plans")
    for number in itertools.count(int(paths[-1].stem) + 1 if paths else 1):
        value = {**plan, "format": files.FORMAT, "number": number}
        path = path_of(outputs, value)
        if files.publish_with_checksum(path, value):
            break
    return path


def changing_plans(outputs: Path) -> AbstractContextManager[None]:
    """Return the lock that a command holds while it changes plans, or records of their runs."""
    return held(outputs / "plans")


def path_of(outputs: Path, plan: Mapping[str, Any]) -> Path:
    """Return the path of a plan's file, such as outputs/plans/0001.json."""
    return outputs / "plans" / f"{plan['number']:04d}.json"


def without(plan: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the plan without the experiments `names` and without the runs that only they use."""
    points = [point for point in plan["points"] if point["experiment"] not in names]
    experiments = {
        one: about for one, about in plan["experiments"].items() if one not in names
    }
    used = {run for one in experiments for run in runs_of(plan, one)}
    runs = {run: about for run, about in plan["runs"].items() if run in used}
    return {**plan, "experiments": experiments, "points": points, "runs": runs}


def runs_of(plan: Mapping[str, Any], name: str) -> dict[str, None]:
    """Return the ids of the runs of an experiment's points, and of all ancestors of these runs.

    The ancestors are a run's parent, the parent's parent and so on. The ids are the keys of the
    returned dict, which serves as an ordered set.
    """
    found: dict[str, None] = {}
    for point in plan["points"]:
        run = point["run"] if point["experiment"] == name else None
        while run and run not in found:
            found[run] = None
            run = plan["runs"].get(run, {}).get("parent")
    return found


def rewrite(outputs: Path, plan: Mapping[str, Any]) -> None:
    """Overwrite the file of a plan. If the plan has no experiments left, remove the file."""
    path = path_of(outputs, plan)
    if plan["experiments"]:
        files.publish_with_checksum(path, plan, replace=True)
    else:
        path.unlink(missing_ok=True)


def plans(outputs: Path) -> list[dict[str, Any]]:
    """Return all readable plans, oldest first."""
    return [plan for _, plan in _readable(_paths(outputs))]


def damaged(outputs: Path) -> list[UserError]:
    """Return an error for each plan that cannot be read."""
    faults = []
    for path in _paths(outputs):
        try:
            _read(path)
        except UserError as fault:
            faults.append(fault)
    return faults


def newest(outputs: Path) -> dict[str, dict[str, Any]]:
    """Return the newest plan of each experiment, by name."""
    return {name: plan for plan in plans(outputs) for name in plan["experiments"]}


def stem(name: str) -> str:
    """Return the file name, without suffix, of the tables and figures of the experiment `name`.

    If `name` is too long or has unsafe characters, return a shortened name with a hash.
    """
    if _PLAIN.fullmatch(name):
        return name
    letters = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:32]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{letters or 'experiment'}-{digest[:12]}"


def describe_values(values: Mapping[str, Any]) -> str:
    """Return the values as `key=value` pairs with short keys, such as `heads=8 head_size=32`."""
    words = []
    for key, value in values.items():
        as_json = value is None or isinstance(value, list)
        word = files.canonical(value) if as_json else value
        words.append(f"{key.rpartition('.')[2]}={word}")
    return " ".join(words)


def in_words(point: Mapping[str, Any]) -> str:
    """Describe a point by its arm, task, values and seed, such as `fixed lm1b heads=8 seed=0`."""
    words = (
        point.get("arm"),
        point.get("task"),
        describe_values(point.get("values", {})),
        f"seed={point.get('seed')}",
    )
    return " ".join(filter(None, words))


def run_of_words(outputs: Path, words: str) -> str:
    """Return the id of the run that matches a description, such as `fig1/fixed heads=8 seed=0`.

    `words` is a description that the command `status` prints, or some of its words, as long as they
    match only one run. Raise UserError if no run or several runs match.
    """
    name, slash, rest = words.partition("/")
    if not slash:
        expected = "a description that begins with an experiment, such as 'fig1/heads=8 seed=0'"
        raise invalid_value("run", words, expected, "add the experiment's name")
    wanted = {*rest.split()}
    found: set[str] = {
        point["run"]
        for point in planned(outputs, [name])[name]["points"]
        if point["experiment"] == name and wanted <= {*in_words(point).split()}
    }
    if len(found) != 1:
        expected = f"a description of one run, but {plural(len(found), 'run')} matched"
        remedy = f"{as_typed('status')} {sanitize(name)} --all lists the runs"
        raise invalid_value("run", words, expected, remedy)
    return found.pop()


def open_run(given: str, outputs: Path) -> Run:
    """Return the run that the argument `given` of a command names.

    `given` is the path of a run's folder, or the id or a description (see `run_of_words`) of a run
    in `outputs`. Raise UserError if there is no such run.
    """
    if "=" in given and not Path(given).exists():
        given = run_of_words(outputs, given)
    by_id = outputs / "runs" / given
    return Run.open(by_id if "/" not in given and by_id.is_dir() else Path(given))


def replaced(outputs: Path, plan: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the stored plans whose results `plan` would replace, by experiment.

    The newest stored plan of an experiment is replaced in two cases:

    - Another command wrote the stored plan, and some of its runs are not in `plan`.
    - The same command wrote the stored plan, some of its runs are not in `plan`, and `plan` has
      new runs. This happens if the user edits the training text or a yaml file between two
      commands.

    The first round of a repeated sweep with `decide` replaces nothing. It has fewer seeds than the
    stored plan, but no new runs.
    """
    found = {}
    for name, before in newest(outputs).items():
        earlier, now = (runs_of(one, name).keys() for one in (before, plan))
        changed = command_of(before) != command_of(plan) or now - earlier
        if name in plan["experiments"] and earlier - now and changed:
            found[name] = before
    return found


def command_of(plan: Mapping[str, Any]) -> str:
    """Return the command line that wrote a plan, as text.

    Leave out `plan_only` and `dry_run`, so that the command trains the plan's runs.
    """
    command = map(str, plan.get("command") or ())
    words = shlex.join(word for word in command if not _TRAINS_NOTHING.match(word))
    return words if words.startswith("python ") else f"python {words}"


def planned(
    outputs: Path, experiments: Sequence[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the newest plan of each of `experiments`. None means all experiments.

    Raise UserError if the folder has no plan, or no plan of one of these experiments.
    """
    wanted, known = set(experiments or ()), dict[str, dict[str, Any]]()
    for _, plan in _readable(reversed(_paths(outputs))):
        known = dict.fromkeys(plan["experiments"], plan) | known
        if wanted and wanted <= known.keys():  # no older plan is needed
            break
    missing = [name for name in experiments or () if name not in known]
    shipped = {path.stem for path in (ROOT / "conf" / "experiment").glob("*.yaml")}
    example = next((name for name in missing if name in shipped), "fig1")
    sweep = f"{as_typed('sweep')} -m experiment={example}"
    if not known:
        for fault in damaged(outputs):
            raise fault
        remedy = f"start with a sweep: {sweep}"
        raise invalid_value("outputs", outputs, "a folder with a plan", remedy)
    if missing:
        names = ", ".join(sanitize(name, 80) for name in known)
        expected = f"a planned experiment ({names})"
        plan_it = f", or plan it: {sweep}" if missing[0] in shipped else ""
        remedy = f"correct the name{plan_it}"
        raise invalid_value("experiment", missing[0], expected, remedy)
    return {name: known[name] for name in experiments or known}


def _read(path: Path) -> dict[str, Any]:
    """Return the plan in a file, or {} if the file is gone. Raise UserError if it is damaged."""
    plan = files.read_versioned(path, schema=Plan) or {}
    runs = plan.get("runs", {}).items()
    try:
        TopologicalSorter({run: [about.get("parent")] for run, about in runs}).prepare()
    except CycleError as cycle:
        raise UserError(
            f"{sanitize(path)} cannot be read: a run would start from its own weights. Plan the "
            "sweep again."
        ) from cycle
    return plan


def _readable(paths: Iterable[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a (path, plan) pair for each plan that can be read."""
    for path in paths:
        with suppress(UserError):
            if plan := _read(path):
                yield path, plan


def _paths(outputs: Path) -> list[Path]:
    folder = outputs / "plans"
    found = [path for path in folder.glob("*.json") if _NUMBERED.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.stem))


def _content(plan: Mapping[str, Any]) -> str:
    return files.canonical({key: plan[key] for key in plan if key not in _VOLATILE})
