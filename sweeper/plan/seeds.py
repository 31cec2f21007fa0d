"""Points and runs of a plan: its configurations, once for each of their seeds."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sweeper.plan.experiment import Experiment
from sweeper.plan.grid import describe_values
from sweeper.plan.plan import Configuration, Plan, PlannedPoint, PlannedRun
from sweeper.store.identity import run_id


def with_seeds(plan: Plan, wanted: Mapping[str, int]) -> Plan:
    """Return the plan with points and runs for the seeds of its configurations.

    `wanted`: the number of seeds, by the run of the first, where it is more than a configuration
    has of its own. A parent gets as many as its children; configurations of several arms or
    experiments that are the same runs get equally many.
    """
    points: list[PlannedPoint] = []
    runs: dict[str, PlannedRun] = {}
    for experiment in plan.experiments.values():
        found = plan.configurations[experiment.name]
        counts = [len(one.arm.seeds or experiment.seeds) for one in found]
        if wanted:
            counts = _more_seeds(found, experiment, wanted, counts)
        for one, seeds in zip(found, counts, strict=True):
            for seed in _seeds(one, experiment, seeds):
                config = _seeded_config(one, seed)
                run, task, values = run_id(config), config["task"]["name"], one.values
                about = values, run, one.matched, one.chosen, one.alternative_to
                points.append(PlannedPoint(experiment.name, one.arm.name, task, seed, *about))
                setting = describe_values(values)
                words = f"{task} {setting}" if experiment.finetune else setting
                label = f"{words} seed={seed}".strip()
                names = {"experiment": experiment.name, "arm": one.arm.name, "label": label}
                runs.setdefault(run, PlannedRun(run, config, one.size, names))
    return replace(plan, points=points, runs=runs)


def _more_seeds(
    found: Sequence[Configuration],
    experiment: Experiment,
    wanted: Mapping[str, int],
    own: Sequence[int],
) -> list[int]:
    """Return the number of seeds of each configuration; parents stand before their children."""

    def first(one: Configuration) -> str:
        return run_id(_seeded_config(one, _seeds(one, experiment, 1)[0]))

    names = [first(one) for one in found]
    counts: dict[str, int] = {}
    for name, least in zip(names, own, strict=True):
        counts[name] = max(least, wanted.get(name, 0), counts.get(name, 0))
    for one, name in zip(reversed(found), reversed(names), strict=True):
        if one.parent:
            parent = first(one.parent)
            counts[parent] = max(counts[parent], counts[name])
    return [counts[name] for name in names]


def _seeds(one: Configuration, experiment: Experiment, number: int) -> list[int]:
    """Return the first seeds of a configuration; those of trials are left out."""
    if one.once:
        return [one.config["seed"]]
    own = one.arm.seeds or experiment.seeds
    apart = [*own, *(experiment.tune.seeds if experiment.tune else ())]
    after: Iterable[int] = itertools.count(max(own) + 1)
    if one.parent:  # its runs start from those of the same seed
        after = _seeds(one.parent, experiment, number)
    further = (seed for seed in after if seed not in apart)
    return [*itertools.islice(itertools.chain(own, further), number)]


def _seeded_config(one: Configuration, seed: int) -> dict[str, Any]:
    """Return the config of one run, which starts from its parent's run of the same seed."""
    config = {**one.config, "seed": seed}
    if one.parent:
        config["parent"] = run_id(_seeded_config(one.parent, seed))
    return config
