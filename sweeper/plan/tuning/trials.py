"""The trials of a plan: which points are tried, with which values, for how long.

In: a plan of what is judged. Out: a plan of trials alone, an experiment for each that is tuned.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sweeper.plan.compose import RunTemplate
from sweeper.plan.experiment import Experiment
from sweeper.plan.plan import Chosen, Plan, UnseededPoint
from sweeper.plan.planner import seeded
from sweeper.plan.sizes import Invalid, Sizes
from sweeper.plan.tuning.tune import Per, Tune
from sweeper.store.errors import wrong
from sweeper.store.files import canonical

SUFFIX = "_trials"


def trials(plan: Plan, tunes: Mapping[str, Tune], sizes: Sizes) -> Plan:
    """The plan of all trials.

    Args:
        tunes: by experiment, how it is tuned.

    Raises:
        Invalid: a value that no run can have.
    """
    experiments, unseeded, texts = {}, {}, {}
    for name, tune in tunes.items():
        own = name + SUFFIX
        experiments[own] = _experiment(plan.experiments[name], tune)
        unseeded[own] = _points(plan.unseeded[name], tune, sizes)
        texts[own] = plan.texts[name]
    made = replace(plan, experiments=experiments, texts=texts, unseeded=unseeded)
    return seeded(made, {})


def shared_by(point: UnseededPoint, per: Per) -> str:
    """What points with one choice have in common."""
    of = {
        Per.arm: None,
        Per.size: point.size["params_total"],
        Per.point: dict(point.values),
    }
    return canonical([point.arm.name, of[per]])


def middles(points: Iterable[UnseededPoint], tune: Tune) -> dict[str, UnseededPoint]:
    """The point that is tried for all that share its choice, by what they have in common."""
    groups: dict[str, list[UnseededPoint]] = {}
    for point in points:
        if tune.tunes(point.arm.name):
            groups.setdefault(shared_by(point, tune.per), []).append(point)
    return {shared: group[len(group) // 2] for shared, group in groups.items()}


def chosen_into(point: UnseededPoint, chosen: Mapping[str, Chosen], per: Per) -> UnseededPoint:
    """A point with the values that were chosen, if any were, for what `shared_by` says of it."""
    own = chosen.get(shared_by(point, per))
    if own is None:
        return point
    return replace(point, config=RunTemplate(point.config).run(own.values), chosen=own)


def _experiment(judged: Experiment, tune: Tune) -> Experiment:
    arms = {
        name: replace(arm, seeds=[], metric=None)
        for name, arm in judged.arms.items()
        if tune.tunes(name)
    }
    return Experiment(
        name=judged.name + SUFFIX,
        title=f"{judged.title}: trials",
        metric=tune.by,
        arms=arms,
        x=next(iter(tune.grid)),
        figure="choices",
        seeds=list(tune.seeds),
        tune=tune,
    )


def _points(points: Iterable[UnseededPoint], tune: Tune, sizes: Sizes) -> list[UnseededPoint]:
    """Every combination of values at the middle points, sized."""
    found = [
        replace(
            point,
            arm=replace(point.arm, seeds=[]),
            values={**point.values, **values},
            config=_config(point.config, values, tune.steps),
        )
        for point in middles(points, tune).values()
        for values in _combinations(tune)
    ]
    answers = sizes.of([point.config for point in found])
    made = []
    for point, size in zip(found, answers, strict=True):
        if isinstance(size, Invalid):
            raise size
        if size["params_total"] != point.size["params_total"]:
            expected = "keys that leave the size of a model as it is"
            raise wrong("experiment.tune.grid", list(tune.grid), expected, "leave out the others")
        made.append(replace(point, size=size))
    return made


def _combinations(tune: Tune) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*tune.grid.values()):
        yield dict(zip(tune.grid, values, strict=True))


def _config(config: Mapping[str, Any], values: Mapping[str, Any], share: float) -> dict[str, Any]:
    """The config of a trial: so much shorter, and validated at its end wherever it was never."""
    made = RunTemplate(config).run(values)
    trainer, optimizer = made["trainer"], made["optimizer"]
    steps = max(round(share * trainer["steps"]), 1)
    trainer |= {"steps": steps, "validate_every": trainer["validate_every"] or steps}
    optimizer |= {"warmup_steps": round(share * optimizer["warmup_steps"])}
    return made
