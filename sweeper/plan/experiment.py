"""An experiment as data: what one figure or table needs, and what its arms range over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any

from sweeper.plan.margin import Margin, read_margin
from sweeper.store.errors import UserError, wrong

COUNTS = ("params_total", "params_non_embedding", "flops_per_token")


@dataclass(frozen=True)
class Match:
    """How the points of an arm are given the size of something else.

    Attributes:
        to: the arm whose points are matched one by one, or a number that all points are matched to.
        count: what is counted, one of `COUNTS`.
        solve: the config key of the whole number that is solved for.
        tolerance: largest accepted |achieved / target - 1|.
        where: which points of the arm `to` are matched, an expression over config keys.
        multiple_of: the solution is a multiple of this number, or of that under this config key.
        same: config keys that have the value of the point that is matched.
    """

    to: str | int
    solve: str
    tolerance: float
    count: str = "params_total"
    where: str | None = None
    multiple_of: str | int = 1
    same: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arm:
    """One curve: what is fixed (`set`), what is swept (`grid`), which points count (`where`).

    Attributes:
        metric: what it is measured by, where that is not the experiment's metric.
        parent: the arm whose runs its own start from, each from that of the same seed. A point is
            then one of that arm's with what this arm sets and sweeps besides; its model is the
            parent's but for the keys that this arm names.
        seeds: its own, where it is to share no run with an arm that trains the same model.
    """

    name: str
    label: str
    set: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, list[Any]] = field(default_factory=dict)
    where: str | None = None
    match: Match | None = None
    metric: str | None = None
    parent: str | None = None
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """Arms, the metric they are compared on, and how the result is drawn and judged.

    Attributes:
        margin: metric -> the difference below which arms count as alike.
        finetune: task -> the metrics shown of it. Each point is then a pre-training that is
            fine-tuned on every one of these tasks.
        pretrainings: "each" seed pre-trains and fine-tunes; or all seeds fine-tune "one", as papers
            do, whose verdicts are then about these weights only.
        paper: a value of `x` -> what the paper prints there, to stand beside what was measured.
    """

    name: str
    title: str
    metric: str
    arms: Mapping[str, Arm]
    x: str = "params_total"
    figure: str = "curves"
    claims: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)
    margin: Mapping[str, Margin] = field(default_factory=dict)
    finetune: Mapping[str, list[str]] = field(default_factory=dict)
    pretrainings: str = "each"
    paper: Mapping[Any, Mapping[str, Any]] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        """What the stages after the plan need to know, as plain data."""
        return {
            "title": self.title,
            "metric": self.metric,
            "x": self.x,
            "figure": self.figure,
            "claims": list(self.claims),
            "margin": {metric: asdict(margin) for metric, margin in self.margin.items()},
            "finetune": dict(self.finetune),
            "paper": {str(value): dict(printed) for value, printed in self.paper.items()},
            "arms": {
                arm.name: {"label": arm.label, "metric": arm.metric or self.metric}
                | ({"parent": arm.parent} if arm.parent else {})
                for arm in self.arms.values()
            },
        }


def read_experiment(name: str, data: Mapping[str, Any], *, scale: str) -> Experiment:
    """The experiment `data` describes at one scale; `scales.<scale>` is laid over the rest."""
    data = dict(data)
    scales = data.pop("scales", None) or {}
    if scales and scale not in scales:
        raise wrong(
            "scale",
            scale,
            f"one that experiment={name} defines ({', '.join(scales)})",
            f"choose one of them or add it to conf/experiment/{name}.yaml",
        )
    data = _overlay(data, scales.get(scale) or {})
    arms = data.pop("arms", None) or {}
    if not arms:
        raise UserError(f"experiment={name} has no arms; name at least one under `arms`.")
    read = {arm: _read_arm(f"{name}.arms.{arm}", arm, entry or {}) for arm, entry in arms.items()}
    _check_targets(name, read)
    data["arms"] = read
    for key in ("claims", "seeds"):
        if key in data:
            data[key] = tuple(data[key])
    _check_keys(name, data, Experiment, given={"name"})
    data["margin"] = {
        metric: read_margin(f"experiment.margin of {name}, {metric}", margin)
        for metric, margin in (data.get("margin") or {}).items()
    }
    if data.get("pretrainings", "each") not in ("each", "one"):
        key = f"experiment.pretrainings of {name}"
        raise wrong(key, data["pretrainings"], "each or one", "choose one of them")
    return Experiment(name=name, **data)


def grid_by_hand(name: str, title: str, axes: Mapping[str, list[Any]], metric: str) -> Experiment:
    """The experiment behind a grid that was typed rather than named: one arm, the swept keys."""
    arm = Arm(name="grid", label=" x ".join(axes) or "run", grid=dict(axes))
    return Experiment(
        name=name,
        title=title,
        metric=metric,
        arms={"grid": arm},
        x=next(iter(axes), "params_total"),
    )


def with_typed(
    experiment: Experiment, axes: Mapping[str, list[Any]], fixed: Mapping[str, Any]
) -> Experiment:
    """The experiment under a command line: what is typed wins over what an arm sets or sweeps.

    Args:
        axes: keys typed with several values; every arm sweeps them.
        fixed: keys typed with one value; an arm that sweeps such a key has that one value left.

    Raises:
        UserError: a key that an arm solves for is typed.
    """

    def overlaid(arm: Arm) -> Arm:
        if arm.match and arm.match.solve in {*axes, *fixed}:
            raise UserError(
                f"{arm.match.solve} is what arm {arm.name} of experiment={experiment.name} solves"
                " for, so it cannot be given; leave it out, or write a grid without an experiment."
            )
        kept = {key: value for key, value in arm.set.items() if key not in {*axes, *fixed}}
        left = {key: [fixed[key]] if key in fixed else values for key, values in arm.grid.items()}
        return replace(arm, set=kept, grid={**left, **axes})

    return replace(experiment, arms={name: overlaid(arm) for name, arm in experiment.arms.items()})


def _read_arm(where: str, name: str, entry: Mapping[str, Any]) -> Arm:
    entry = dict(entry)
    entry.setdefault("label", name)
    match = entry.pop("match", None)
    if match is not None:
        _check_keys(f"{where}.match", match, Match)
        entry["match"] = Match(**{**match, "same": tuple(match.get("same") or ())})
        if entry["match"].count not in COUNTS:
            raise wrong(
                f"{where}.match.count",
                match["count"],
                f"one of {', '.join(COUNTS)}",
                "correct it in the experiment's yaml",
            )
    _check_keys(where, entry, Arm, given={"name"})
    for key, values in entry.get("grid", {}).items():
        if not isinstance(values, list) or not values:
            raise wrong(
                f"{where}.grid.{key}", values, "a list of values", "write it as a yaml list"
            )
    return Arm(name=name, **{**entry, "seeds": tuple(entry.get("seeds") or ())})


def _check_targets(name: str, arms: Mapping[str, Arm]) -> None:
    for arm in arms.values():
        target = arm.match.to if arm.match else None
        if isinstance(target, str) and (target not in arms or arms[target].match):
            raise wrong(
                f"{name}.arms.{arm.name}.match.to",
                target,
                "an arm of the same experiment that is not matched itself, or a number",
                f"choose among {', '.join(a for a in arms if a != arm.name)}",
            )
    before: list[str] = []
    for arm in arms.values():
        if arm.parent and (arm.parent not in before or arm.match):
            expected = "an arm that stands before it" if not arm.match else "none, it is matched"
            remedy = f"choose among {', '.join(before) or 'none'}"
            raise wrong(f"{name}.arms.{arm.name}.parent", arm.parent, expected, remedy)
        before.append(arm.name)


def _check_keys(
    where: str, data: Mapping[str, Any], kind: type, given: frozenset[str] | set[str] = frozenset()
) -> None:
    known = {f.name: f for f in fields(kind)}
    for key in data:
        if key not in known or key in given:
            raise wrong(
                f"{where}.{key}",
                data[key],
                "a key of " + kind.__name__.lower(),
                f"use one of {', '.join(k for k in known if k not in given)}",
            )
    for key, f in known.items():
        needed = f.default is MISSING and f.default_factory is MISSING
        if needed and key not in data and key not in given:
            raise UserError(f"{where} lacks `{key}`; add it to the experiment's yaml.")


def _overlay(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on `base`, mapping by mapping; anything else, lists included, is replaced."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _overlay(old, value) if both else value  # type: ignore[arg-type]
    return merged
