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
        axes: keys with several values; every arm sweeps them.
        fixed: keys with one value; an arm that sweeps such a key gets only this value.

    Raises:
        UserError: the command line sets `metric`, or a key that an arm solves for or in which arms
            differ. It sweeps a key for which claims need one value. Or it has options of tuning,
            but the experiment is not tuned.
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
        # A claim would compare one arm at one value with another arm at another value.
        expected = f"one value, since claims of {experiment.yaml} compare its arms"
        remedy = "start one sweep for each value, or add 'experiment.claims=[]'"
        raise invalid_value(added[0], axes[added[0]], expected, remedy)

    arms = {name: _arm(arm, axes, fixed) for name, arm in experiment.arms.items()}
    # The figure of the yaml would join points with different values of an added axis, and it may
    # ignore a typed `experiment.x`. If one of the two is typed, draw curves, unless the figure is
    # typed as well.
    figure = experiment.figure
    if (added or "experiment.x" in fixed) and "experiment.figure" not in fixed:
        figure = "curves"
    tune = _tune(experiment.tune, typed) if experiment.tune else None
    if not tune:
        _refuse_tuning_options(experiment, fixed)
    return replace(experiment, arms=arms, tune=tune, figure=figure)


def _arm(arm: Arm, axes: Mapping[str, list[Any]], fixed: Mapping[str, Any]) -> Arm:
    """Return a copy of an arm, in which the keys of the command line override its own.

    Keys in `axes` are swept. Keys in `fixed` have one value.
    """
    kept = {key: value for key, value in arm.set.items() if key not in {*axes, *fixed}}
    # An arm may sweep a fixed key together with others, as in "model.heads,model.layers". So append
    # an axis that has only the fixed key. It overrides the earlier axis.
    alone = {key: [fixed[key]] for key in arm.swept if key in fixed}
    return replace(arm, set=kept, grid={**arm.grid, **alone, **axes})


def _tune(tune: Tune, typed: Mapping[str, Any]) -> Tune | None:
    """Return the tuning of the keys that are not typed; None if no key is left."""
    free = {key: values for key, values in tune.grid.items() if key not in typed}
    return replace(tune, grid=free) if free else None


def _refuse_tuning_options(experiment: Experiment, typed: Mapping[str, Any]) -> None:
    """Raise UserError if the command line has options of tuning, although nothing is tuned."""
    for key, value in typed.items():
        if value and re.match(r"experiment\.(scales\.[^.]+\.)?tune", key):
            expected = (
                f"no option of tuning, since {experiment.yaml} is not tuned: it needs "
                "experiment.tuned=true, and a key in tune.grid that the command line does not set"
            )
            raise invalid_value(key, value, expected, "add them, or leave it out")


def _check_not_solved(experiment: Experiment, typed: Mapping[str, Any]) -> None:
    """Raise UserError if the command line sets a key that an arm solves for."""
    for arm in experiment.arms.values():
        if arm.match and arm.match.solve in typed:
            raise UserError(
                f"{arm.match.solve} cannot be set, because experiment={experiment.yaml} computes "
                f"it in the arm '{arm.name}' to match another model's size; leave it out, or sweep "
                "a grid without an experiment."
            )


def _added_axes(experiment: Experiment, axes: Mapping[str, list[Any]]) -> list[str]:
    """Return the keys of `axes` with several values that some arm of the yaml does not sweep.

    Arms that start from another arm, or are matched to one, do not count, because they take its
    values.
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
    """Raise UserError if arms set a key, but not all to the same value.

    A value on the command line would hold for all arms. They would no longer differ in this key,
    but keep their labels and claims. An arm that sweeps the key can take any value. An arm that
    neither sets nor sweeps it has the value of its parent.
    """
    arms = experiment.arms.values()
    own = [arm for arm in arms if not arm.parent or key in (*arm.set, *arm.swept)]
    setting = [arm.name for arm in own if key in arm.set]
    free = [typed if key in arm.swept else "no value" for arm in own]
    values = [arm.set.get(key, other) for arm, other in zip(own, free, strict=True)]
    if setting and any(value != values[0] for value in values):
        expected = (
            f"a key in which the arms of {experiment.yaml} do not differ "
            f"(set by {', '.join(setting)})"
        )
        one = f"experiment.arms.ARM.set={{{key}: VALUE}}"
        remedy = f"write '{one}' for one arm, or sweep a grid without an experiment"
        raise invalid_value(key, typed, expected, remedy)
