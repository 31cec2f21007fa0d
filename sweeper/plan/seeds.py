"""Expand the configurations of a plan by their seeds.

Each pair of a configuration and a seed gets a `PlannedPoint`, which names its run. Equal pairs of
several experiments share one run.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sweeper.plan.experiment import LARGEST_SEED, Experiment
from sweeper.plan.plan import Configuration, Plan, PlannedPoint
from sweeper.store.identity import run_id
from sweeper.store.plans import describe_values
from sweeper.store.records import Record


def with_seeds(plan: Plan, wanted: Mapping[str, int]) -> Plan:
    """Return a copy of the plan with a `PlannedPoint` for each pair of a configuration and a seed.

    The copy also has the runs of these points.

    Args:
        plan: the plan; its points and runs are replaced.
        wanted: the total number of seeds of each configuration that needs more seeds than the
            experiment lists. The key of a configuration is the id of its run with the first seed.
            The number holds in all arms and experiments with this configuration. A parent gets at
            least as many seeds as its children.
    """
    points: list[PlannedPoint] = []
    runs: dict[str, Record] = {}
    for experiment in plan.experiments.values():
        found = plan.configurations[experiment.name]
        counts = [len(one.seeds or experiment.seeds) for one in found]
        if wanted:
            counts = _more_seeds(found, experiment, wanted, counts)
        for one, count in zip(found, counts, strict=True):
            for seed in _seeds(one, experiment, count):
                point, run = _planned(one, experiment, seed)
                points.append(point)
                runs.setdefault(run.id, run)
    return replace(plan, points=points, runs=runs)


def _planned(
    one: Configuration, experiment: Experiment, seed: int
) -> tuple[PlannedPoint, Record]:
    """Return the point of a configuration with one seed, and the record of its run."""
    config = seeded_config(one, seed)
    run, task = run_id(config), config["task"]["name"]
    point = PlannedPoint(
        experiment=experiment.name,
        arm=one.arm.name,
        task=task,
        seed=seed,
        values=one.values,
        run=run,
        matched=one.matched,
        chosen=one.chosen,
        alternative_to=one.alternative_to,
    )
    setting = describe_values(one.values)
    words = f"{task} {setting}" if experiment.finetune else setting
    label = f"{words} seed={seed}".strip()
    names = {"experiment": experiment.name, "arm": one.arm.name, "label": label}
    return point, Record(run, config, one.size, names)


def _more_seeds(
    found: Sequence[Configuration],
    experiment: Experiment,
    wanted: Mapping[str, int],
    own: Sequence[int],
) -> list[int]:
    """Return the number of seeds of each configuration in `found`.

    A parent needs at least as many seeds as its children.

    Args:
        found: the configurations. Parents precede their children.
        experiment: the experiment of the configurations.
        wanted: the number of seeds by first run, as in `with_seeds`.
        own: the number of seeds that each configuration has without `wanted`.
    """

    def first_run(one: Configuration) -> str:
        return run_id(seeded_config(one, _seeds(one, experiment, 1)[0]))

    names = [first_run(one) for one in found]
    counts: dict[str, int] = {}
    for name, least in zip(names, own, strict=True):
        counts[name] = max(least, wanted.get(name, 0), counts.get(name, 0))
    # Visit children before their parents, so that grandparents get enough seeds as well.
    for one, name in zip(reversed(found), reversed(names), strict=True):
        if one.parent:
            parent = first_run(one.parent)
            counts[parent] = max(counts[parent], counts[name])
    return [counts[name] for name in names]


def _seeds(one: Configuration, experiment: Experiment, number: int) -> list[int]:
    """Return the first `number` seeds of a configuration.

    First come the seeds that the configuration or the experiment lists. For example, the seeds
    [5, 7] are followed by 8, 9 and so on. Skip the seeds of tuning trials. After LARGEST_SEED,
    continue from 0. If `one.once` is True, return only the seed in the config.
    """
    if one.once:
        return [one.config["seed"]]
    own = one.seeds or experiment.seeds
    of_trials = experiment.tune.seeds if experiment.tune else ()
    taken = {*own, *of_trials}
    after = (seed % (LARGEST_SEED + 1) for seed in itertools.count(max(own) + 1))
    further = (seed for seed in after if seed not in taken)
    return [*itertools.islice(itertools.chain(own, further), number)]


def seeded_config(one: Configuration, seed: int) -> dict[str, Any]:
    """Return the config of a configuration's run with this seed.

    If the configuration has a parent, the run starts from the parent's run with the same seed.
    """
    config = {**one.config, "seed": seed}
    if one.parent:
        config["parent"] = run_id(seeded_config(one.parent, seed))
    return config
