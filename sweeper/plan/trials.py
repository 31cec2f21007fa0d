"""The trials that tune a plan: which points are tried, with which values and seeds."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sweeper.plan.compose import RunTemplate
from sweeper.plan.experiment import Experiment, Per, Tune
from sweeper.plan.facts import Facts, Invalid
from sweeper.plan.plan import Chosen, Configuration, Plan
from sweeper.plan.planner import with_seeds
from sweeper.store.errors import invalid_value
from sweeper.store.files import canonical

SUFFIX = "_trials"


def trials(
    plan: Plan, tunes: Mapping[str, Tune], facts: Facts, finalists: Collection[str] = ()
) -> Plan:
    """Return the plan of all trials: one experiment for each that is tuned.

    `finalists`: the arms and settings, as text, that are tried with all seeds. Raise Invalid for a
    value that no run can have.
    """
    experiments, configurations, texts = {}, {}, {}
    for name, tune in tunes.items():
        own, judged = name + SUFFIX, plan.experiments[name]
        experiments[own] = Experiment(
            name=own,
            title=f"{judged.title}: trials",
            metric=tune.by,
            arms={key: replace(arm, seeds=[], metric=None) for key, arm in judged.arms.items()},
            x=next(iter(tune.grid)),
            figure="choices",
            seeds=list(tune.seeds[:1]),
            tune=tune,
        )
        configurations[own] = _points(plan.configurations[name], tune, facts, finalists)
        texts[own] = plan.texts[name]
    made = replace(plan, experiments=experiments, texts=texts, configurations=configurations)
    return with_seeds(made, {})


def shared_by(point: Configuration, tune: Tune) -> str:
    """Return what points with one choice have in common, as text."""
    of = {
        Per.arm: None,
        Per.size: point.size["params_total"],
        Per.point: dict(point.values),
    }
    return canonical([point.arm.name, of[tune.per]])


def middles(points: Iterable[Configuration], tune: Tune) -> dict[str, Configuration]:
    """Return the point that is tried for all that share its choice, by what they share."""
    groups: dict[str, list[Configuration]] = {}
    for point in points:
        groups.setdefault(shared_by(point, tune), []).append(point)
    return {shared: group[len(group) // 2] for shared, group in groups.items()}


def chosen_into(
    points: Iterable[Configuration], chosen: Mapping[str, Sequence[Chosen]], tune: Tune
) -> Iterator[Configuration]:
    """Yield points with the values chosen for them, each followed by its alternatives.

    `chosen` is by the arm and setting tried; the first of each is the choice.
    """
    points = list(points)
    tried = middles(points, tune)
    for point in points:
        middle = tried[shared_by(point, tune)]
        best, *others = (
            replace(point, config=RunTemplate(point.config).run(own.values), chosen=own)
            for own in chosen[canonical([middle.arm.name, middle.values])]
        )
        yield best
        for other in others:
            assert other.chosen
            values = {**point.values, **other.chosen.values}
            yield replace(other, values=values, alternative_to=point.values)


def _points(
    points: Iterable[Configuration], tune: Tune, facts: Facts, finalists: Collection[str]
) -> list[Configuration]:
    """Return every combination of values at the middle points, with its size."""
    found = []
    for point in middles(points, tune).values():
        for values in itertools.product(*tune.grid.values()):
            tried = dict(zip(tune.grid, values, strict=True))
            config = RunTemplate(point.config).run(tried)
            trainer = config["trainer"]  # a run that is never validated is at its end
            trainer["validate_every"] = trainer["validate_every"] or trainer["steps"]
            settings = {**point.values, **tried}
            all_seeds = canonical([point.arm.name, settings]) in finalists
            arm = replace(point.arm, seeds=list(tune.seeds) if all_seeds else [])
            found.append(replace(point, arm=arm, values=settings, config=config))
    answers = facts.sizes_if_valid([point.config for point in found])
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
