"""Experiments as conf/experiment describes them: arms, metrics, claims and tuning."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from sweeper.plan.compose import as_dataclass
from sweeper.plan.hydra_errors import no_experiment_in, unknown_key
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.plans import ERROR

SPLIT = "validation/"
SUFFIX = "_trials"  # of the name of an experiment: that of the trials which tune it
LARGEST_SEED = 2**32 - 1  # of numpy
LARGEST_COUNT = 10**18  # of parameters or FLOPs
LEAST_SEEDS = 3  # of trials; fewer say little about the error of a choice


Per = StrEnum("Per", ["arm", "point", "size"])
"""The points of an arm that share one choice: all, one each, or those of equally many parameters.
Of points that share one, the middle is tried."""


@dataclass
class Tune:
    """The search for values that every arm gets before it is judged.

    Every choice tries the same values, at full length, and takes those that validate best. All
    values are tried with the first seed, and the two best with the others.
    """

    grid: dict[str, list[Any]]  # the values to try by key, in all combinations
    by: str = "validation/loss"  # the metric of the validation split that decides
    seeds: list[int] = field(default_factory=lambda: [1000, 1001, 1002])  # of no judged run
    per: Per = Per.point
    grow: int = 2  # by how many values a range of numbers may grow where the best lies at its end


def check_seeds(key: str, seeds: Sequence[Any]) -> None:
    """Raise UserError unless seeds are whole numbers from 0 to LARGEST_SEED, one or more."""
    remedy = "for example seed=0,1,2" if key == "seed" else "for example [0,1,2]"
    if not seeds:
        raise invalid_value(key, "[]", "at least one seed", remedy)
    for seed in seeds:
        known = isinstance(seed, int) and not isinstance(seed, bool)
        if not known or not 0 <= seed <= LARGEST_SEED:
            raise invalid_value(key, seed, f"whole numbers from 0 to {LARGEST_SEED}", remedy)


def check(experiment: Experiment) -> None:
    """Raise UserError for invalid seeds, metrics shown twice, and tuning that is no fair choice.

    Tuning is unfair without values, by another split, with seeds that are judged, and of runs that
    start from others.
    """
    check_seeds(f"experiment.seeds of {experiment.name}", experiment.seeds)
    for arm in experiment.arms.values():
        remedies = {"seed": "write seeds: [0, 1]", "scale": "sweep one scale at a time"}
        for key, remedy in remedies.items():
            if key in (*arm.set, *arm.swept):
                where = f"experiment.arms.{arm.name} of {experiment.name}"
                raise invalid_value(where, key, f"no {key} in set or grid of an arm", remedy)
        where = f"experiment.arms.{arm.name}.seeds of {experiment.name}"
        if arm.seeds:  # else it has those of the experiment
            check_seeds(where, arm.seeds)
        parent, own = experiment.arms.get(arm.parent or ""), arm.seeds or experiment.seeds
        theirs = (parent.seeds or experiment.seeds) if parent else own
        if not {*own} <= {*theirs}:
            expected = f"seeds of its parent {arm.parent} ({', '.join(map(str, theirs))})"
            raise invalid_value(where, own, expected, "give both arms the same seeds")
    shown = [metric for metrics in experiment.finetune.values() for metric in metrics]
    for metric in shown:
        if shown.count(metric) > 1:  # points of several tasks have the same names
            where = f"experiment.finetune of {experiment.name}"
            expected = "each metric once, at one task"
            raise invalid_value(where, metric, expected, "leave it out of the others")
    if experiment.tune:
        _check_tune(experiment, experiment.tune)


def _check_tune(experiment: Experiment, tune: Tune) -> None:
    where = f"experiment.tune of {experiment.name}"
    for key, values in tune.grid.items():
        if len({*map(repr, values)}) < max(len(values), 2):
            expected = "two different values or more"
            raise invalid_value(f"{where}, grid.{key}", list(values), expected, "list them")
        for arm in experiment.arms.values():
            if key in arm.swept:
                expected = f"a key that no arm sweeps, as {arm.name} does"
                remedy = "leave it out of one of the two"
                raise invalid_value(f"{where}, grid", key, expected, remedy)
    if not tune.by.startswith(SPLIT):
        remedy = "for example validation/loss"
        raise invalid_value(f"{where}, by", tune.by, "a metric of the validation split", remedy)
    if tune.grow < 0:
        raise invalid_value(f"{where}, grow", tune.grow, "a number of at least 0", "correct it")
    remedy = "for example [1000,1001,1002]"
    judged = {*experiment.seeds, *(seed for arm in experiment.arms.values() for seed in arm.seeds)}
    if judged & {*tune.seeds}:
        expected = f"seeds that are not judged, as {', '.join(map(str, sorted(judged)))} are"
        raise invalid_value(f"{where}, seeds", list(tune.seeds), expected, remedy)
    if len({*tune.seeds}) < LEAST_SEEDS:
        expected = f"{LEAST_SEEDS} different seeds or more, to tell the two best values apart"
        raise invalid_value(f"{where}, seeds", list(tune.seeds), expected, remedy)
    if experiment.finetune or any(arm.parent for arm in experiment.arms.values()):
        expected = "none, since runs of this experiment start from others"
        remedy = "leave experiment.tune out"
        raise invalid_value(f"{where}, grid", list(tune.grid), expected, remedy)


def at_end(values: Sequence[Any], best: Any) -> bool:
    """Return whether `best` is the least or the most of numbers that were tried; 0 has no less."""
    known = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return known and best != 0 and best in (min(values), max(values))


def beyond(values: Sequence[Any], best: Any) -> Any:
    """Return the value one geometric step beyond the end `best`; None if it is no end.

    Only numbers above 0 are a range with ends.
    """
    if not at_end(values, best) or min(values) <= 0:
        return None
    known = sorted(values)
    end, inner = (known[0], known[1]) if best == known[0] else (known[-1], known[-2])
    following = end * end / inner
    whole = all(isinstance(value, int) for value in values)
    found = round(following) if whole else float(f"{following:.6g}")
    return found if found > 0 and found not in values else None


Count = StrEnum(
    "Count",
    ["params_total", "params_non_embedding", "flops_per_token", "cache_bytes_per_token"],
)
"""The counts of a model that a match can use."""

Pretrainings = StrEnum("Pretrainings", ["each", "one"])
"""The number of pre-trainings behind the seeds of a point: one each, or one for all."""


@dataclass
class Margin:
    """The largest difference that counts as none."""

    size: Any  # in the unit of the metric, or per cent of it ("1 %")
    reason: str  # a sentence on why it is this large


@dataclass
class Match:
    """The matching of an arm's points to a size."""

    to: str | int  # the arm whose points are the targets, or a number for all points
    solve: str  # the config key that is solved for, a whole number
    tolerance: float  # the largest accepted |achieved / target - 1|
    count: Count = Count.params_total  # the size that is matched
    where: str | None = None  # a condition over config keys on the points of the arm `to`
    multiple_of: str | int = 1  # the solution is a multiple of this number or config key
    same: list[str] = field(default_factory=list)  # keys that take the value of the target point


@dataclass
class Arm:
    """One curve: fixed keys (`set`), swept keys (`grid`), a condition on its points (`where`).

    Its runs may start from those of the arm `parent`, seed by seed. A point is then one of that arm
    with the keys that this arm sets and sweeps; its model is the parent's but for these keys.
    """

    name: str
    label: str
    set: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, list[Any]] = field(default_factory=dict)
    where: str | None = None
    match: Match | None = None
    metric: str | None = None  # if it differs from the experiment's
    parent: str | None = None
    seeds: list[int] = field(default_factory=list)  # so that arms with equal models share no run

    @property
    def swept(self) -> list[str]:
        """The keys of its axes; an axis may move several together."""
        return [key.strip() for axis in self.grid for key in axis.split(",")]


@dataclass
class Experiment:
    """Arms, the metric that compares them, and the figure and claims of the result.

    With `finetune`, each point is a pre-training that is fine-tuned on every one of these tasks.
    `pretrainings`: `each` seed pre-trains; with `one`, all seeds fine-tune one pre-training, as
    papers do, and verdicts are about these weights only.
    """

    name: str  # of its plan, table and figure
    title: str
    metric: str
    arms: dict[str, Arm]
    yaml: str = ""  # the file in conf/experiment that describes it; empty for a typed grid
    x: str = "params_total"
    figure: str = "curves"
    claims: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=lambda: [0])
    margin: dict[str, Margin] = field(default_factory=dict)  # by metric
    error: float = ERROR  # the chance that any of its claims ever gets a wrong answer
    finetune: dict[str, list[str]] = field(default_factory=dict)  # by task, the metrics to show
    pretrainings: Pretrainings = Pretrainings.each
    paper: dict[Any, Any] = field(default_factory=dict)  # by value of `x`, what the paper prints
    tune: Tune | None = None  # the search for values of the arms before they are judged
    tuned: bool = True  # whether it takes place; else the values stay as in the configs

    def described(self) -> dict[str, Any]:
        """Return plain data for the stages after the plan."""
        same = ("title", "metric", "x", "figure", "claims", "margin", "error", "finetune")
        plain = asdict(self)
        return {
            **{key: plain[key] for key in same},
            "paper": {str(value): dict(printed) for value, printed in self.paper.items()},
            "arms": {
                arm.name: {"label": arm.label, "metric": arm.metric or self.metric}
                | ({"parent": arm.parent} if arm.parent else {})
                for arm in self.arms.values()
            },
            **({"tune": plain["tune"] | {"per": self.tune.per.value}} if self.tune else {}),
        }


def with_typed(
    experiment: Experiment, axes: Mapping[str, list[Any]], fixed: Mapping[str, Any]
) -> Experiment:
    """Return the experiment with typed keys, which override those of its arms.

    Args:
        axes: keys with several values; every arm sweeps them. Where arms do not sweep them anyway,
            the figure is `curves`: that of the experiment would join points that differ in them.
        fixed: keys with one value; an arm that sweeps such a key keeps this value alone.

    Raises:
        UserError: a key that an arm solves for is typed.
    """

    def overlaid(arm: Arm) -> Arm:
        if arm.match and arm.match.solve in {*axes, *fixed}:
            raise UserError(
                f"{arm.match.solve} is what arm {arm.name} of experiment={experiment.yaml} solves"
                " for, so it cannot be given; leave it out, or write a grid without an experiment."
            )
        kept = {key: value for key, value in arm.set.items() if key not in {*axes, *fixed}}
        # After an axis that moves several keys together, the value of one of them overrides it.
        alone = {key: [fixed[key]] for key in arm.swept if key in fixed}
        return replace(arm, set=kept, grid={**arm.grid, **alone, **axes})

    arms, tune = {name: overlaid(arm) for name, arm in experiment.arms.items()}, experiment.tune
    if tune:
        free = {key: values for key, values in tune.grid.items() if key not in {*axes, *fixed}}
        tune = replace(tune, grid=free) if free else None
    own = [arm.swept for arm in experiment.arms.values() if not arm.match]
    foreseen = all(key in swept for swept in own for key in axes)
    figure = experiment.figure if foreseen or "experiment.figure" in fixed else "curves"
    return replace(experiment, arms=arms, tune=tune, figure=figure)


def read_experiment(
    name: str,
    data: Any,
    *,
    scale: str,
    scales: Collection[str] | None = None,
    typed: Mapping[str, Any] | None = None,
) -> Experiment:
    """Return the experiment that conf/experiment/<name>.yaml describes at one scale.

    Args:
        data: its section `experiment`; `scales.<scale>` overrides the rest of it.
        scales: all scales; it may define no other.
        typed: the overrides of a command line; those of the experiment override the yaml.

    Raises:
        UserError: it is not such a description, or has an unknown key at any scale.
    """
    where = f"experiment={name}"
    if not isinstance(data, Mapping) or "experiment" in data:
        raise no_experiment_in(name)
    rest = {key: value for key, value in data.items() if key != "scales"}
    own = _section("experiment.scales", data.get("scales"))
    if own and scale not in own:
        expected = f"one that {where} defines ({', '.join(own)})"
        remedy = f"choose one of them or add it to conf/experiment/{name}.yaml"
        raise invalid_value("scale", scale, expected, remedy)
    for other, section in own.items():
        if scales is not None and other not in scales:
            expected = f"scales that there are ({', '.join(scales)})"
            raise invalid_value(f"experiment.scales of {name}", other, expected, "correct the name")
        prefix, section = f"{where}: scales.{other}.", _section(f"scales.{other}", section)
        arms = _section(f"{prefix}arms", section.get("arms"))
        for path, kind, found in (
            (prefix, Experiment, section),
            *((f"{prefix}arms.{arm}.", Arm, _section(arm, keys)) for arm, keys in arms.items()),
        ):
            known = [one.name for one in fields(kind)]
            for key in found:
                if key not in known:
                    raise unknown_key(f"{path}{key}", (f"{path}{one}" for one in known))
    whole = _overlay(rest, own.get(scale) or {})
    for key, value in (typed or {}).items():
        first, *parts = key.split(".")
        if first != "experiment" or not parts:
            continue
        if parts[0] == "scales":
            if len(parts) > 1 and parts[1] != scale:
                expected, remedy = f"scale={parts[1]} with it", "add that, or leave it out"
                raise invalid_value(key, value, expected, remedy)
            continue
        if value is None or value == {}:  # as the guide says, they leave the key out
            whole = _without(whole, parts)
            continue
        for part in reversed(parts):
            value = {part: value}
        whole = _overlay(whole, value)
    experiment = _read(name, whole)
    nothing = not (experiment.tune and experiment.tune.grid)
    if nothing and (typed or {}).get("experiment.tuned"):
        expected = f"false, since {experiment.name} names nothing to tune at scale={scale}"
        raise invalid_value("experiment.tuned", True, expected, "give it experiment.tune.grid")
    return replace(experiment, tune=None) if nothing or not experiment.tuned else experiment


def _check_match(where: str, match: Match, others: Sequence[Arm]) -> None:
    """Raise UserError for a match to nothing; `others` are the other arms of the experiment."""
    target = match.to
    targets = [arm.name for arm in others if not arm.match]
    known = target in targets if isinstance(target, str) else 1 <= target <= LARGEST_COUNT
    if not known:
        expected = "an arm of the experiment that is not matched itself, or a number from 1 to 1e18"
        remedy = f"choose among {', '.join(arm.name for arm in others) or 'none'}"
        raise invalid_value(f"{where}.to", target, expected, remedy)
    if match.tolerance < 0:
        expected, remedy = "a number of at least 0", "for example 0.01, which is 1 %"
        raise invalid_value(f"{where}.tolerance", match.tolerance, expected, remedy)
    if isinstance(target, int) and (match.where or match.same):
        key = "where" if match.where else "same"
        expected = f"none, since match.to={target} is no arm with points"
        raise invalid_value(f"{where}.{key}", match.where or match.same, expected, "leave it out")


def _read(name: str, data: dict[str, Any]) -> Experiment:
    arms = _section(f"experiment.arms of {name}", data.pop("arms", None))
    named = {
        arm: {"label": arm, **_section(f"{name}.arms.{arm}", said), "name": arm}
        for arm, said in arms.items()
    }
    for key in {"name", "yaml"} & data.keys():
        where = f"experiment.{key} of {name}"
        raise invalid_value(where, data[key], "no such key", "name=... names it")
    for value, printed in _section(f"experiment.paper of {name}", data.get("paper")).items():
        _section(f"experiment.paper.{value} of {name}", printed)
    whole = {**data, "name": name, "yaml": name, "arms": named}
    experiment = as_dataclass(Experiment, whole, f"experiment={name}")
    if not experiment.arms:
        raise UserError(f"experiment={name} has no arms; name at least one under `arms`.")
    if not experiment.title.strip():
        raise invalid_value(f"experiment.title of {name}", "", "a few words", "say what it shows")
    if experiment.tune:
        check_seeds(f"experiment.tune.seeds of {name}", experiment.tune.seeds)
    before = list[str]()
    for arm in experiment.arms.values():
        where = f"{name}.arms.{arm.name}"
        if arm.match:
            others = [one for one in experiment.arms.values() if one is not arm]
            _check_match(f"{where}.match", arm.match, others)
        if arm.parent and (arm.parent not in before or arm.match):
            expected = "an arm that stands before it"
            remedy = f"choose among {', '.join(before)}" if before else "leave it out"
            if arm.match:
                expected, remedy = "none, since the arm is matched", "leave out one of the two"
            raise invalid_value(f"{where}.parent", arm.parent, expected, remedy)
        before.append(arm.name)
    if not 0 < experiment.error <= 0.2:
        expected = "a chance above 0 and at most 0.2"
        where, remedy = f"experiment.error of {name}", "leave it at 0.05"
        raise invalid_value(where, experiment.error, expected, remedy)
    for metric, margin in experiment.margin.items():
        where = f"experiment.margin of {name}, {metric}"
        remedy = "write for example {size: 1 %, reason: why this is small}"
        try:
            size = float(str(margin.size).strip().removesuffix("%"))
        except ValueError:
            size = 0.0
        if not 0 < size < math.inf:
            expected = "a number above 0 in the metric's unit, or per cent"
            raise invalid_value(f"{where}, size", margin.size, expected, remedy)
        if not margin.reason.strip():
            raise invalid_value(f"{where}, reason", margin.reason, "a sentence", remedy)
    return experiment


def _section(key: str, given: Any) -> Mapping[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        expected = "a section of keys and values"
        raise invalid_value(key, given, expected, "write it as in conf/experiment/fig1.yaml")
    if any(isinstance(name, bool) for name in given or ()):
        expected = "names in quotes, since YAML reads on, off, yes and no as true or false"
        raise invalid_value(key, [*(given or ())], expected, "write 'on':")
    return given or {}


def _overlay(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` overridden by `over`, mapping by mapping; lists are replaced."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _overlay(old, value) if both else value  # type: ignore[arg-type]
    return merged


def _without(tree: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return `tree` without the key at a path."""
    first, *rest = path
    if not rest:
        return {key: value for key, value in tree.items() if key != first}
    child = tree.get(first)
    return {**tree, first: _without(child, rest)} if isinstance(child, Mapping) else dict(tree)
