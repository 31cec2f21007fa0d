"""Parse and check the section `experiment` of the yaml files in conf/experiment."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from sweeper.plan.hydra_errors import no_experiment_in, unknown_key
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.identity import can_change_results, leaves
from sweeper.store.plans import ERROR

SPLIT = (
    "validation/"  # the names of all metrics of the validation split begin with this
)
# The trials that tune the experiment NAME form an experiment named NAME_trials.
SUFFIX = "_trials"
LARGEST_SEED = 2**32 - 1  # NumPy's random generators accept no larger seed
LARGEST_COUNT = 10**18  # the largest target of a match, in parameters, FLOPs or bytes
# Extracts the scale and the arm from a key such as experiment.scales.demo.arms.fixed.label.
_OVERRIDE = re.compile(
    r"experiment(\.scales\.(?P<scale>[^.]+))?(\.arms\.(?P<arm>[^.]+))?"
)
LEAST_SEEDS = 3  # with fewer seeds, trials cannot tell a better value from noise


def _check_values(values: list[Any]) -> list[Any]:
    """Return `values`. Raise ValueError if there are fewer than two, or if two are equal."""
    if len({*map(repr, values)}) < max(len(values), 2):
        raise ValueError("expected at least two values, all of them different")
    return values


def _check_margin(size: Any) -> Any:
    """Return `size`. Raise ValueError unless it is a number above 0 or a percentage above 0."""
    if not 0 < float(str(size).strip().removesuffix("%")) < math.inf:
        raise ValueError(
            "expected a number above 0 in the metric's unit, or a percentage such as 1 %"
        )
    return size


_CONFIG = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
Seed = Annotated[int, Field(strict=True, ge=0, le=LARGEST_SEED)]
Seeds = Annotated[list[Seed], Field(min_length=1)]


@dataclass(config=_CONFIG)
class Tune:
    """The options of tuning: a search for good values of keys such as the learning rate.

    A trial is a training run with one combination of values, for the full number of steps. Tuning
    tries the smallest and the largest model of each arm, and other models if needed
    (sweeper/stages/tune.py). For each model, it tries all combinations with the first seed, and the
    two best of them with the second seed. If the results of these two are still too close, it tries
    both with all other seeds.
    """

    # The values to try, by key. Tuning tries all combinations of the values of different keys.
    grid: dict[str, Annotated[list[Any], AfterValidator(_check_values)]] = field(
        default_factory=dict
    )
    # The metric by which the best combination is chosen.
    by: Annotated[str, Field(pattern=f"^{SPLIT}")] = "validation/loss"
    # The seeds of the trials. The experiment's own runs may not use them.
    seeds: Seeds = field(default_factory=lambda: [1000, 1001, 1002])
    # If the smallest or largest value of a key is best, try further values, at most this many.
    grow: Annotated[int, Field(ge=0)] = 2


Count = StrEnum(
    "Count",
    [
        "params_total",
        "params_non_embedding",
        "flops_per_token",
        "cache_bytes_per_token",
    ],
)
"""The measures of a model's size that `match.count` can name."""

Pretrainings = StrEnum("Pretrainings", ["each", "one"])
"""`each`: every seed of a fine-tuned point has its own pre-training. `one`: all seeds share one."""


@dataclass(config=_CONFIG)
class Margin:
    """The largest difference in a metric that does not matter, and why it does not matter."""

    # A number in the metric's unit, or a percentage of the metric ("1 %").
    size: Annotated[Any, AfterValidator(_check_margin)]
    # A sentence that justifies the size.
    reason: Annotated[str, Field(pattern=r"\S")]


@dataclass(config=_CONFIG)
class Match:
    """The target sizes of the models of an arm, and the key whose value gives them these sizes."""

    # The target size, or the name of an arm whose points are the targets.
    to: str | int
    solve: str  # the key to compute; its value is a whole number
    # The largest accepted |achieved size / target size - 1|.
    tolerance: Annotated[float, Field(ge=0)]
    count: Count = Count.params_total  # the measure of size to match
    # Only points of the arm `to` that meet this condition are targets.
    where: str | None = None
    # The computed value is a multiple of this number, or of the value of the key with this name.
    multiple_of: str | int = 1
    # Each matched point copies the values of these keys from its target point.
    same: list[str] = field(default_factory=list)


@dataclass(config=_CONFIG)
class Arm:
    """One curve of an experiment: fixed keys, swept keys, and a condition on its points.

    If `parent` names another arm, each run starts from the weights of a parent run: the run of that
    arm with the same seed. The config is that of the parent run, except for the keys in `set` and
    `grid`.
    """

    name: str
    label: str
    set: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, list[Any]] = field(default_factory=dict)
    where: str | None = None
    match: Match | None = None
    metric: str | None = None  # the metric to show; None: the experiment's metric
    parent: str | None = None

    @property
    def swept(self) -> list[str]:
        """The keys that the grid sweeps. An axis "model.heads,model.layers" sweeps both keys."""
        return [key.strip() for axis in self.grid for key in axis.split(",")]


@dataclass(config=_CONFIG)
class Experiment:
    """A comparison of arms by a metric, shown in a figure and judged by claims.

    If `finetune` is set, each point is a pre-training, followed by a fine-tuning on each task in
    `finetune`. With `pretrainings: each`, every seed pre-trains its own model. With
    `pretrainings: one`, all seeds fine-tune the same pre-trained model, as papers do. Verdicts then
    hold only for this pre-trained model.
    """

    name: str  # the name of the plan, table and figure
    title: Annotated[str, Field(pattern=r"\S")]
    metric: str
    arms: Annotated[dict[str, Arm], Field(min_length=1)]
    # The name of the file in conf/experiment, or "" for a grid from the command line.
    yaml: str = ""
    x: str = "params_total"
    figure: str = "curves"
    claims: list[str] = field(default_factory=list)
    seeds: Seeds = field(default_factory=lambda: [0])
    margin: dict[str, Margin] = field(default_factory=dict)  # keyed by metric
    # The largest accepted probability that at least one claim gets a wrong verdict.
    error: Annotated[float, Field(gt=0, le=0.2)] = ERROR
    # Maps each task of fine-tuning to the metrics that tables and figures show.
    finetune: dict[str, list[str]] = field(default_factory=dict)
    pretrainings: Pretrainings = Pretrainings.each
    # The numbers printed in the paper, as {value of `x`: {metric: [mean, number after +-]}}.
    paper: dict[Any, dict[Any, Any]] = field(default_factory=dict)
    tune: Tune | None = None
    tuned: bool = True  # if False, ignore `tune`

    @property
    def section(self) -> str:
        """The prefix of keys in messages about this experiment: "experiment=fig1: experiment"."""
        return f"experiment={self.yaml or self.name}: experiment"

    def described(self) -> dict[str, Any]:
        """Return the part of the experiment that the file of a plan stores, as plain data."""
        same = (
            "title",
            "metric",
            "x",
            "figure",
            "claims",
            "margin",
            "error",
            "finetune",
        )
        plain = asdict(self)
        return {
            **{key: plain[key] for key in same},
            "paper": {
                str(value): dict(printed) for value, printed in self.paper.items()
            },
            "arms": {
                arm.name: {"label": arm.label, "metric": arm.metric or self.metric}
                | ({"parent": arm.parent} if arm.parent else {})
                for arm in self.arms.values()
            },
            **({"tune": plain["tune"]} if self.tune else {}),
        }


def check_seeds(seeds: Sequence[Any]) -> None:
    """Raise UserError if `seeds`, from the command line, has an invalid seed."""
    try:
        _SEEDS.validate_python(seeds)
    except ValidationError as problem:
        seed = problem.errors()[0]["input"]
        expected = f"whole numbers from 0 to {LARGEST_SEED}"
        remedy = "write for example seed=0,1,2"
        raise invalid_value("seed", seed, expected, remedy) from None


def check(experiment: Experiment) -> None:
    """Raise UserError if the arms, seeds, metrics or tuning of an experiment are invalid.

    - Arms may not set `seed` or `scale`.
    - In `finetune`, two tasks may not list the same metric.
    - Tuning needs seeds that the experiment's own runs do not use.
    - Runs that start from other runs cannot be tuned.
    """
    for arm in experiment.arms.values():
        for key in ("seed", "scale"):
            if key in (*arm.set, *arm.swept):
                raise UserError(
                    f"{experiment.section}.arms.{arm.name} cannot set or sweep {key}; leave it "
                    "out. All arms have the same seeds (seeds: [0, 1] in the yaml) and the same "
                    "scale (scale=cpu on the command line)."
                )

    shown = [metric for metrics in experiment.finetune.values() for metric in metrics]
    for metric in shown:
        # A figure selects its points by metric, so it could not tell two tasks apart.
        if shown.count(metric) > 1:
            where = f"{experiment.section}.finetune"
            expected = "a metric that no other task lists"
            raise invalid_value(where, metric, expected, "list it under one task only")
    if experiment.tune:
        _check_tune(experiment, experiment.tune)


def _check_tune(experiment: Experiment, tune: Tune) -> None:
    where = f"{experiment.section}.tune"
    for key in tune.grid:
        for arm in experiment.arms.values():
            if key in (*arm.set, *arm.swept):
                expected = f"a key that no arm sets or sweeps, but arm {arm.name} does"
                remedy = "remove it from the arm or from tune.grid"
                raise invalid_value(f"{where}.grid", key, expected, remedy)
    judged = {*experiment.seeds}
    if judged & {*tune.seeds} or len({*tune.seeds}) < LEAST_SEEDS:
        first = max(1000, *judged) + 1
        expected = (
            f"at least {LEAST_SEEDS} different seeds, and none of the experiment's own seeds "
            f"({', '.join(map(str, sorted(judged)))})"
        )
        remedy = f"write for example [{first},{first + 1},{first + 2}]"
        raise invalid_value(f"{where}.seeds", list(tune.seeds), expected, remedy)
    if experiment.finetune or any(arm.parent for arm in experiment.arms.values()):
        expected = "no tuning, since runs of this experiment start from other runs"
        remedy = "leave experiment.tune out"
        raise invalid_value(f"{where}.grid", list(tune.grid), expected, remedy)


def at_end(values: Sequence[Any], best: Any) -> bool:
    """Return whether `best` is the smallest or the largest of the tried `values`.

    Return False if a value is not a number. Also return False if `best` is 0, since there is no
    geometric step beyond 0.
    """
    numbers = all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in values
    )
    return numbers and best != 0 and best in (min(values), max(values))


def beyond(values: Sequence[Any], best: Any) -> Any:
    """Return the next value to try, one geometric step beyond `best`.

    For example, `beyond([1, 2, 4], 4)` returns 8. Return None if `best` is neither the smallest nor
    the largest of `values`, or if a value is not a number above 0.
    """
    if not at_end(values, best) or min(values) <= 0:
        return None
    known = sorted(values)
    end, inner = (known[0], known[1]) if best == known[0] else (known[-1], known[-2])
    following = end * end / inner
    whole = all(isinstance(value, int) for value in values)
    found = round(following) if whole else float(f"{following:.6g}")
    return found if found > 0 and found not in values else None


def read_experiment(
    name: str,
    data: Any,
    *,
    scale: str,
    overrides: Mapping[str, Any] | None = None,
    added: Collection[str] = (),
) -> Experiment:
    """Return the experiment of conf/experiment/<name>.yaml at one scale.

    Args:
        name: the name of the yaml file.
        data: the section `experiment` of the file. Its part `scales.<scale>` overrides the rest.
        scale: the chosen scale.
        overrides: the values of the command line, by key. Keys that begin with `experiment.`
            override the yaml. Other keys are ignored.
        added: the keys that the command line writes with a plus sign. They may add an arm.

    Raises:
        UserError: the section is invalid at the chosen scale or at another one.
    """
    if not isinstance(data, Mapping) or "experiment" in data:
        raise no_experiment_in(name)
    typed = overrides or {}
    rest = {key: value for key, value in data.items() if key != "scales"}
    written = _valid(_SCALES, data.get("scales") or {}, name, "experiment.scales")
    before = _overlay(rest, written.get(scale) or {})
    _check_overrides(name, before, scale, typed, added)
    of_scales = {
        key: value
        for key, value in typed.items()
        if f"{key}.".startswith("experiment.scales.")
    }
    others = {key: value for key, value in typed.items() if key not in of_scales}
    changed = _with_scales(data, of_scales).get("scales") or {}
    by_scale = _valid(_SCALES, changed, name, "experiment.scales")
    if by_scale and scale not in by_scale:
        expected = f"a scale that experiment={name} defines ({', '.join(by_scale)})"
        remedy = f"choose one of them, or add {scale} in conf/experiment/{name}.yaml"
        raise invalid_value("scale", scale, expected, remedy)

    own = by_scale.get(scale) or {}
    whole = _with_overrides(_overlay(rest, own), "experiment.", others)
    experiment = _read(name, whole, "experiment")
    for other, section in by_scale.items():
        _read(name, _overlay(rest, section or {}), f"experiment.scales.{other}")
    if experiment.tuned and experiment.tune and experiment.tune.grid:
        return experiment
    return replace(experiment, tune=None)


def _check_overrides(
    name: str,
    whole: Mapping[str, Any],
    scale: str,
    overrides: Mapping[str, Any],
    added: Collection[str],
) -> None:
    """Raise UserError for an override of another scale, or of an arm that does not exist.

    Args:
        name: the name of the yaml file.
        whole: the section `experiment` at the chosen scale.
        scale: the chosen scale.
        overrides: the values of the command line, by key.
        added: the keys that the command line writes with a plus sign. They may add an arm.
    """
    arms = whole.get("arms") or {}
    for key, value in overrides.items():
        found = _OVERRIDE.match(key)
        if found and (other := found["scale"]) and other != scale:
            expected = f"a key of the chosen scale, {scale}"
            remedy = f"add scale={other}, or leave the key out"
            raise invalid_value(key, value, expected, remedy)
        if found and (arm := found["arm"]) and arm not in arms and key not in added:
            expected = f"an arm of {name} ({', '.join(arms)})"
            remedy = f"correct the name. To add an arm, write +{key}=VALUE"
            raise invalid_value("experiment.arms", arm, expected, remedy)


def _with_scales(
    data: Mapping[str, Any], overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the section `experiment`, changed by overrides of `experiment.scales`.

    Raise UserError if an override removes a key that the yaml does not set.
    """
    known = leaves(data, "experiment.")
    for key, value in overrides.items():
        if value is None and not any(f"{one}.".startswith(f"{key}.") for one in known):
            expected = "a value, since the yaml does not set this key at this scale"
            raise invalid_value(key, value, expected, "leave it out, or set a value")
    return _with_overrides(data, "experiment.", overrides)


def _with_overrides(
    section: Mapping[str, Any], prefix: str, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a copy of `section` with overrides applied. Ignore keys that lack the `prefix`."""
    changed = dict(section)
    for key, value in overrides.items():
        path = key.removeprefix(prefix).split(".")
        if not key.startswith(prefix):
            continue
        if value is None or value == {}:
            # docs/experiments.md promises that null and {} remove the key.
            changed = _without(changed, path)
            continue
        tree = value
        for part in reversed(path):
            tree = {part: tree}
        changed = _overlay(changed, tree)
    return changed


def _read(name: str, data: Mapping[str, Any], section: str) -> Experiment:
    """Parse `data`, the section `experiment` of the file `name` with scale and overrides applied.

    Raise UserError if it is invalid. `section` is the prefix of keys in the message.
    """
    for key in {"name", "yaml"} & data.keys():
        raise UserError(
            f"experiment={name}: {section}.{key} cannot be set; leave it out. To name the results, "
            "add name=NAME to the command line."
        )
    outside = leaves({key: value for key, value in data.items() if key != "arms"})
    for key, value in outside.items():
        if "${" in str(value):
            expected = "no reference to another key"
            place = f"experiment={name}: {section}.{key}"
            raise invalid_value(place, value, expected, "write the value")
    whole = {**data, "name": name, "yaml": name}
    if isinstance(arms := data.get("arms"), Mapping):
        whole["arms"] = {
            arm: {"label": arm, **(own or {}), "name": arm}
            if isinstance(own, Mapping | None)
            else own
            for arm, own in arms.items()
        }
    experiment: Experiment = _valid(_EXPERIMENT, whole, name, section)
    for arm in experiment.arms.values():
        _check_arm(experiment, arm)
    return experiment


_SCALES = TypeAdapter(dict[str, dict[str, Any] | None])
_SEEDS = TypeAdapter(Seeds)
_EXPERIMENT = TypeAdapter(Experiment)


def _valid(adapter: TypeAdapter[Any], data: Any, name: str, section: str) -> Any:
    """Return `data` as parsed by a pydantic adapter. Raise UserError for the first invalid value.

    The message names the experiment `name` and the key, which begins with `section`.
    """
    try:
        return adapter.validate_python(data)
    except ValidationError as problem:
        error = problem.errors()[0]
    path = [str(part) for part in error["loc"]]
    if path and path[-1] == "[key]":
        raise UserError(
            f"experiment={name}: a name under {'.'.join([section, *path[:-2]])} is not a string. "
            "YAML reads on, off, yes and no as true or false, so put such names in quotes ('on')."
        )
    key = ".".join([section, *path])
    if error["type"] == "unexpected_keyword_argument":
        known = (one.name for one in fields(_class_at(path)))
        prefix = key.removesuffix(path[-1])
        raise unknown_key(key, [f"{prefix}{one}" for one in known])
    if error["type"] == "missing":
        raise UserError(f"experiment={name}: {key} is missing; give it a value.")
    message = error["msg"].removeprefix("Value error, ")
    reason = f"{message[0].lower()}{message[1:]}"
    raise UserError(
        f"experiment={name}: {key}={sanitize(error['input'])}: {reason}; "
        "correct it as in conf/experiment/fig1.yaml."
    )


def _class_at(path: Sequence[str]) -> type[Any]:
    """Return the dataclass whose fields are the valid keys beside the unknown key at `path`.

    For example, ("arms", "matched", "match", "tolerence") returns `Match`.
    """
    if len(path) == 1:
        return Experiment
    inside = {"match": Match, "tune": Tune}.get(path[-2])
    return inside or (Arm if path[0] == "arms" else Margin)


def _check_arm(experiment: Experiment, arm: Arm) -> None:
    """Raise UserError if the match, the parent or an interpolation of an arm is invalid.

    Points are named and compared by their values. So only `set` and `label` may have
    interpolations such as `${model.heads}`.
    """
    where = f"{experiment.section}.arms.{arm.name}"
    for key, value in leaves(asdict(replace(arm, set={}, label=""))).items():
        if "${" in str(value):
            expected = "no reference to another key"
            remedy = "write the value, or use `set` in a separate arm"
            raise invalid_value(f"{where}.{key}", value, expected, remedy)
    for key in arm.swept:
        if not can_change_results(key):
            expected = "keys that can change the result of a run"
            remedy = "set it for the whole sweep instead"
            raise invalid_value(f"{where}.grid", key, expected, remedy)
    if arm.match:
        others = [one for one in experiment.arms.values() if one is not arm]
        _check_match(f"{where}.match", arm.match, others)
    if arm.parent and arm.match:
        raise UserError(f"{where} has both parent and match; leave out one of the two.")
    names = [*experiment.arms]
    before = names[: names.index(arm.name)]
    if arm.parent and arm.parent not in before:
        expected = (
            f"an arm that the yaml describes before this one ({', '.join(before)})"
        )
        remedy = "name one of them, or leave it out"
        raise invalid_value(f"{where}.parent", arm.parent, expected, remedy)


def _check_match(where: str, match: Match, others: Sequence[Arm]) -> None:
    """Raise UserError unless `match.to` is a size, or the name of an arm without a section `match`.

    Also raise UserError if `match.to` is a size but `match.where` or `match.same` is set, because
    these two keys select points of an arm.

    Args:
        where: the prefix of keys in the message.
        match: the section to check.
        others: the other arms of the experiment.
    """
    target = match.to
    is_size = isinstance(target, int) and 1 <= target <= LARGEST_COUNT
    if is_size and (match.where or match.same):
        expected = (
            "the name of an arm, since `where` and `same` refer to the points of an arm"
        )
        raise invalid_value(
            f"{where}.to", target, expected, "leave `where` and `same` out"
        )
    targets = [arm.name for arm in others if not arm.match]
    if not is_size and target not in targets:
        expected = "a number from 1 to 1e18, or the name of an arm that has no `match`"
        raise invalid_value(f"{where}.to", target, expected, "correct it")


def _overlay(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `base` with `over` merged into it at every level. Replace whole lists."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _overlay(old, value) if both else value  # type: ignore[arg-type]
    return merged


def _without(tree: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return a copy of `tree` without the key at `path`."""
    first, *rest = path
    kept = dict(tree)
    if not rest:
        kept.pop(first, None)
    elif isinstance(child := tree.get(first), Mapping):
        kept[first] = _without(child, rest)
    return kept
