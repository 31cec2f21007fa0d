"""The trials of a plan: which points are tried, with which values, for how long.

In: a plan of what is judged. Out: a plan of trials alone, an experiment for each that is tuned.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sweeper.plan.compose import RunTemplate
from sweeper.plan.experiment import LENGTH, RATE, Experiment, Per, Tune
from sweeper.plan.grid import lookup
from sweeper.plan.plan import Chosen, Plan, UnseededPoint
from sweeper.plan.planner import seeded
from sweeper.plan.sizes import Invalid, Sizes
from sweeper.store.errors import invalid_value
from sweeper.store.files import canonical

SUFFIX = "_trials"


def trials(
    plan: Plan,
    tunes: Mapping[str, Tune],
    sizes: Sizes,
    better: Mapping[str, Collection[str]] | None = None,
) -> Plan:
    """The plan of all trials.

    Args:
        tunes: by experiment, how it is tuned.
        better: by experiment, its trials that the next length follows upon, see `better_half`.

    Raises:
        Invalid: a value that no run can have.
    """
    experiments, unseeded, texts = {}, {}, {}
    for name, tune in tunes.items():
        own = name + SUFFIX
        experiments[own] = _experiment(plan.experiments[name], tune)
        unseeded[own] = _points(plan.unseeded[name], tune, sizes, (better or {}).get(name, ()))
        texts[own] = plan.texts[name]
    made = replace(plan, experiments=experiments, texts=texts, unseeded=unseeded)
    return seeded(made, {})


def shared_by(point: UnseededPoint, tune: Tune) -> str:
    """What points with one choice have in common."""
    of = {
        Per.arm: None,
        Per.size: point.size["params_total"],
        Per.point: dict(point.values),
    }
    arm = point.arm.name
    return canonical([arm, of[Per.arm if arm in tune.transfer else tune.per]])


def middles(points: Iterable[UnseededPoint], tune: Tune) -> dict[str, UnseededPoint]:
    """The point that is tried for all that share its choice, by what they have in common.

    Where the choice is carried over from one width to others it is one of the least width.
    """
    groups: dict[str, list[UnseededPoint]] = {}
    for point in points:
        if tune.tunes(point.arm.name):
            groups.setdefault(shared_by(point, tune), []).append(point)
    for shared, group in groups.items():
        if group[0].arm.name in tune.transfer:
            least = min(map(_width, group))
            groups[shared] = [point for point in group if _width(point) == least]
    return {shared: group[len(group) // 2] for shared, group in groups.items()}


def chosen_into(
    points: Iterable[UnseededPoint], chosen: Mapping[str, Chosen], tune: Tune
) -> Iterator[UnseededPoint]:
    """Points with what was chosen for them, by the arm and setting that were tried for each."""
    points = list(points)
    tried = middles(points, tune)
    for point in points:
        middle = tried.get(shared_by(point, tune))
        if middle is None:
            yield point
            continue
        own = chosen[canonical([middle.arm.name, middle.values])]
        if point.arm.name in tune.transfer and _width(point) != _width(middle):
            rate = own.values[RATE] * math.sqrt(_width(middle) / _width(point))
            own = replace(own, values={**own.values, RATE: float(f"{rate:.6g}")})
        yield replace(point, config=RunTemplate(point.config).run(own.values), chosen=own)


def _width(point: UnseededPoint) -> int:
    try:
        width: int = lookup("model.embedding_size", point.config)
    except KeyError:
        expected = "models that have a model.embedding_size"
        raise invalid_value(
            "experiment.tune.transfer", point.arm.name, expected, "leave it out"
        ) from None
    return width


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


def _points(
    points: Iterable[UnseededPoint], tune: Tune, sizes: Sizes, better: Collection[str]
) -> list[UnseededPoint]:
    """Every combination of values at the middle points as far as it is to be tried, sized."""
    found = [
        trial
        for point in middles(points, tune).values()
        for values in itertools.product(*tune.grid.values())
        for trial in _lengths(point, dict(zip(tune.grid, values, strict=True)), tune, better)
    ]
    answers = sizes.answers([point.config for point in found])
    made = []
    for point, size in zip(found, answers, strict=True):
        if isinstance(size, Invalid):
            raise size
        if size["params_total"] != point.size["params_total"]:
            expected = "keys that leave the size of a model as it is"
            raise invalid_value(
                "experiment.tune.grid", list(tune.grid), expected, "leave out the others"
            )
        made.append(replace(point, size=size))
    return made


def _lengths(
    point: UnseededPoint, values: Mapping[str, Any], tune: Tune, better: Collection[str]
) -> Iterator[UnseededPoint]:
    """The trials of one combination: of the first length, and as long as it was a better one."""
    for share, _ in tune.rungs(1):
        config = _config(point.config, values, share)
        length = {LENGTH: config["trainer"]["steps"]} if tune.halving else {}
        own = {**point.values, **values, **length}
        yield replace(point, arm=replace(point.arm, seeds=[]), values=own, config=config)
        if canonical([point.arm.name, own]) not in better:
            break


def _config(config: Mapping[str, Any], values: Mapping[str, Any], share: float) -> dict[str, Any]:
    """The config of a trial: so much shorter, and validated at its end wherever it was never."""
    made = RunTemplate(config).run(values)
    trainer, optimizer = made["trainer"], made["optimizer"]
    steps = max(round(share * trainer["steps"]), 1)
    trainer |= {"steps": steps, "validate_every": trainer["validate_every"] or steps}
    optimizer |= {"warmup_steps": round(share * optimizer["warmup_steps"])}
    return made
