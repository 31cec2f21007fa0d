"""An experiment out of yaml, as it is at one scale; keys are looked at in all of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any

from sweeper.plan.compose import as_dataclass
from sweeper.plan.experiment import Arm, Experiment, Margin
from sweeper.plan.hydra_errors import unknown_key
from sweeper.store.errors import UserError, wrong

_SECTION = "a section of keys and values"


def read_experiment(
    name: str,
    data: Any,
    *,
    scale: str,
    scales: Collection[str] | None = None,
    typed: Mapping[str, Any] | None = None,
) -> Experiment:
    """The experiment that conf/experiment/<name>.yaml describes at one scale.

    Args:
        data: its section `experiment`; `scales.<scale>` is laid over the rest of it.
        scales: the scales that there are; it may define no other.
        typed: the overrides of a command line; those of the experiment are laid over all.

    Raises:
        UserError: it is no such description, or holds an unknown key at any scale.
    """
    where = f"experiment={name}"
    if not isinstance(data, Mapping) or "experiment" in data:
        raise UserError(
            f"{where}: conf/experiment/{name}.yaml describes no experiment; its first line has to "
            "be '# @package _global_', and its keys stand below `experiment:`."
        )
    rest = {key: value for key, value in data.items() if key != "scales"}
    own = _section("experiment.scales", data.get("scales"))
    if own and scale not in own:
        expected = f"one that {where} defines ({', '.join(own)})"
        remedy = f"choose one of them or add it to conf/experiment/{name}.yaml"
        raise wrong("scale", scale, expected, remedy)
    for other, section in own.items():
        if scales is not None and other not in scales:
            expected = f"scales that there are ({', '.join(scales)})"
            raise wrong(f"experiment.scales of {name}", other, expected, "correct the name")
        _check_keys(f"{where}: scales.{other}.", _section(f"scales.{other}", section))
    whole = _overlay(rest, own.get(scale) or {})
    experiment = _read(name, _overlay(whole, _typed(typed or {})))
    return _tuned(experiment, scale, asked=(typed or {}).get("experiment.tuned"))


def _tuned(experiment: Experiment, scale: str, *, asked: Any) -> Experiment:
    """The experiment, with `tune` only if it is to be tuned; UserError if it is asked in vain."""
    nothing = not (experiment.tune and experiment.tune.grid)
    if nothing and asked:
        expected = f"false, since {experiment.name} names nothing to tune at scale={scale}"
        raise wrong("experiment.tuned", True, expected, "give it experiment.tune.grid")
    return replace(experiment, tune=None) if nothing or not experiment.tuned else experiment


def _read(name: str, data: dict[str, Any]) -> Experiment:
    arms = _section(f"experiment.arms of {name}", data.pop("arms", None))
    named = {
        arm: {"label": arm, **_section(f"{name}.arms.{arm}", said), "name": arm}
        for arm, said in arms.items()
    }
    for key in {"name", "yaml"} & data.keys():
        raise wrong(f"experiment.{key} of {name}", data[key], "no such key", "name=... names it")
    for value, printed in _section(f"experiment.paper of {name}", data.get("paper")).items():
        _section(f"experiment.paper.{value} of {name}", printed)
    whole = {**data, "name": name, "yaml": name, "arms": named}
    experiment = as_dataclass(Experiment, whole, f"experiment={name}")
    if not experiment.arms:
        raise UserError(f"experiment={name} has no arms; name at least one under `arms`.")
    if not experiment.title.strip():
        raise wrong(f"experiment.title of {name}", "", "a few words", "say what it shows")
    _check_targets(experiment)
    if not 0 < experiment.error <= 0.2:
        expected = "a chance above 0 and at most 0.2"
        raise wrong(f"experiment.error of {name}", experiment.error, expected, "leave it at 0.05")
    for metric, margin in experiment.margin.items():
        _check_margin(f"experiment.margin of {name}, {metric}", margin)
    return experiment


def _check_keys(prefix: str, section: Mapping[str, Any]) -> None:
    """UserError for an unknown key in what a scale lays over an experiment."""
    arms = _section(f"{prefix}arms", section.get("arms"))
    for path, kind, found in (
        (prefix, Experiment, section),
        *((f"{prefix}arms.{name}.", Arm, _section(name, arm)) for name, arm in arms.items()),
    ):
        known = [one.name for one in fields(kind)]
        for key in found:
            if key not in known:
                raise unknown_key(f"{path}{key}", (f"{path}{one}" for one in known))


def _section(key: str, given: Any) -> Mapping[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise wrong(key, given, _SECTION, "write it as in conf/experiment/fig1.yaml")
    return given or {}


def _typed(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Those of an experiment as a tree."""
    tree: dict[str, Any] = {}
    for key, value in overrides.items():
        first, *parts = key.split(".")
        for part in reversed(parts if first == "experiment" else ()):
            value = {part: value}
        if first == "experiment" and parts and parts[0] != "scales":
            tree = _overlay(tree, value)
    return tree


def _check_margin(where: str, given: Margin) -> None:
    """UserError if the margin under the key `where` is no size above 0, or has no reason."""
    remedy = "write for example {size: 1 %, reason: why this is small}"
    try:
        size = float(str(given.size).strip().removesuffix("%"))
    except ValueError:
        size = 0.0
    if not 0 < size < math.inf:
        expected = "a number above 0 in the metric's unit, or per cent"
        raise wrong(f"{where}, size", given.size, expected, remedy)
    if not given.reason.strip():
        raise wrong(f"{where}, reason", given.reason, "a sentence", remedy)


def _check_targets(experiment: Experiment) -> None:
    arms, before = experiment.arms, list[str]()
    for arm in arms.values():
        where = f"{experiment.name}.arms.{arm.name}"
        target = arm.match.to if arm.match else None
        if isinstance(target, str) and (target not in arms or arms[target].match):
            expected = "an arm of the same experiment that is not matched itself, or a number"
            others = ", ".join(name for name in arms if name != arm.name)
            raise wrong(f"{where}.match.to", target, expected, f"choose among {others}")
        if arm.parent and (arm.parent not in before or arm.match):
            expected = "an arm that stands before it" if not arm.match else "none, it is matched"
            remedy = f"choose among {', '.join(before) or 'none'}"
            raise wrong(f"{where}.parent", arm.parent, expected, remedy)
        before.append(arm.name)


def _overlay(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on `base`, mapping by mapping; anything else, lists included, is replaced."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _overlay(old, value) if both else value  # type: ignore[arg-type]
    return merged
