"""Change the arms of an experiment by the overrides of a command line."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sweeper.plan.experiment import Arm, Experiment, Tune
from sweeper.store.errors import UserError, invalid_value


def with_command_line(
    experiment: Experiment, axes: Mapping[str, list[Any]], fixed: Mapping[str, Any]
) -> Experiment:
    """Return the experiment with its arms changed by the command line.

    Args:
        experiment: the experiment as its yaml describes it.
        axes: the values of swept keys. Every arm sweeps these keys.
        fixed: the values of keys with one value. An arm that sweeps such a key gets only this
            value.

    Raises:
        UserError: the command line does one of the following:

            - it sets `metric`
            - it sets a key in which the arms differ
            - it sets a key whose value an arm computes to match a size
            - it sweeps a key that must have one value, because claims compare the arms
            - it sets options of tuning, but the experiment is not tuned
    """
    typed = {**fixed, **axes}
    if "metric" in typed:
        expected = f"no metric, since experiment={experiment.yaml} has its own"
        remedy = "write experiment.metric=NAME instead"
        raise invalid_value("metric", typed["metric"], expected, remedy)
    _check_not_solved(experiment, typed)
    for key, value in typed.items():
        _check_arms_agree(experiment, key, value)
    added = _added_axes(experiment, axes)
    if added and experiment.claims and len(experiment.arms) > 1:
        expected = (
            f"one value, because claims of {experiment.yaml} could compare arms with different "
            f"values of {added[0]}"
        )
        remedy = "start one sweep for each value, or add 'experiment.claims=[]'"
        raise invalid_value(added[0], axes[added[0]], expected, remedy)

    arms = {name: _arm(arm, axes, fixed) for name, arm in experiment.arms.items()}
    # In two cases, draw the figure "curves", unless the command line chooses a figure. If it sweeps
    # a further key, the yaml's figure would join points with different values of this key. If it
    # sets experiment.x, the yaml's figure may ignore that.
    figure = experiment.figure
    if (added or "experiment.x" in fixed) and "experiment.figure" not in fixed:
        figure = "curves"
    tune = _tune(experiment.tune, typed) if experiment.tune else None
    if not tune:
        _refuse_tuning_options(experiment, fixed)
    return replace(experiment, arms=arms, tune=tune, figure=figure)


def _arm(arm: Arm, axes: Mapping[str, list[Any]], fixed: Mapping[str, Any]) -> Arm:
    """Return a copy of an arm in which the command line overrides `set` and `grid`.

    The copy sweeps `axes`. It does not set the keys in `fixed`, since each config gets them from
    the command line. If the arm sweeps such a key, the copy sweeps its single value.
    """
    kept = {key: value for key, value in arm.set.items() if key not in {*axes, *fixed}}
    # The fixed key may be in an axis of several keys, such as "model.heads,model.layers". So keep
    # this axis, and append one that has only the fixed key. Later axes override earlier ones.
    alone = {key: [fixed[key]] for key in arm.swept if key in fixed}
    return replace(arm, set=kept, grid={**arm.grid, **alone, **axes})


def _tune(tune: Tune, typed: Mapping[str, Any]) -> Tune | None:
    """Return `tune` without the keys that the command line sets; None if no key is left."""
    free = {key: values for key, values in tune.grid.items() if key not in typed}
    return replace(tune, grid=free) if free else None


def _refuse_tuning_options(experiment: Experiment, typed: Mapping[str, Any]) -> None:
    """Raise UserError if the command line sets options of tuning, such as experiment.tune.grow.

    Call this only if the experiment is not tuned.
    """
    for key, value in typed.items():
        if value and re.match(r"experiment\.(scales\.[^.]+\.)?tune", key):
            expected = f"no option of tuning, since {experiment.yaml} is not tuned"
            remedy = (
                "leave this option out. Tuning needs experiment.tuned=true, and a key in "
                "experiment.tune.grid that the command line does not set"
            )
            raise invalid_value(key, value, expected, remedy)


def _check_not_solved(experiment: Experiment, typed: Mapping[str, Any]) -> None:
    """Raise UserError if the command line sets a key that an arm computes, `match.solve`."""
    for arm in experiment.arms.values():
        if arm.match and arm.match.solve in typed:
            raise UserError(
                f"{arm.match.solve} cannot be set, because experiment={experiment.yaml} computes "
                f"it in the arm '{arm.name}' to match another model's size; leave it out, or sweep "
                "a grid without an experiment."
            )


def _added_axes(experiment: Experiment, axes: Mapping[str, list[Any]]) -> list[str]:
    """Return the keys of `axes` that at least one arm of the yaml does not sweep.

    Leave out keys with a single value. Ignore arms that have a parent or are matched to another
    arm, since the points of such arms take the value of their parent or their target.
    """
    arms = experiment.arms
    free = [
        arm
        for arm in arms.values()
        if not arm.parent and not (arm.match and arm.match.to in arms)
    ]
    return [
        key
        for key, values in axes.items()
        if len(values) > 1 and not all(key in arm.swept for arm in free)
    ]


def _check_arms_agree(experiment: Experiment, key: str, typed: Any) -> None:
    """Raise UserError if the command line sets a key in which the arms of the yaml differ.

    The arms would no longer differ in this key, but would keep their labels and claims. An arm that
    sweeps the key counts as having the typed value. An arm with a parent is ignored if it neither
    sets nor sweeps the key, since it takes the value of the parent.
    """
    arms = experiment.arms.values()
    own = [arm for arm in arms if not arm.parent or key in (*arm.set, *arm.swept)]
    setting = [arm.name for arm in own if key in arm.set]
    free = [typed if key in arm.swept else "no value" for arm in own]
    values = [arm.set.get(key, other) for arm, other in zip(own, free, strict=True)]
    if setting and any(value != values[0] for value in values):
        expected = (
            f"a key in which the arms of {experiment.yaml} do not differ "
            f"(arms that set this key: {', '.join(setting)})"
        )
        one = f"experiment.arms.ARM.set={{{key}: VALUE}}"
        remedy = f"write '{one}' for one arm, or sweep a grid without an experiment"
        raise invalid_value(key, typed, expected, remedy)
