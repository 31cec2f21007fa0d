"""From points before their seeds to a plan: which seeds each has, and the runs that these share.

Seeds are counted, not chosen: a point of n seeds has the first n of its own, which are those of its
arm or of its experiment, and of the whole numbers that follow the largest of these. So more seeds
are further runs, never others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sweeper.plan import grid
from sweeper.plan.experiment import Experiment
from sweeper.plan.plan import Plan, Point, Run, UnseededPoint
from sweeper.store.identity import run_id


def seeded(plan: Plan, wanted: Mapping[str, int]) -> Plan:
    """The same plan with other seeds.

    Args:
        plan: its `unseeded` points are what is given seeds.
        wanted: by the run of a point's first seed, how many seeds it is to have, where that is more
            than its own. What it starts from has as many; points of several arms or experiments
            that are the same runs have equally many.
    """
    points: list[Point] = []
    runs: dict[str, Run] = {}
    for experiment in plan.experiments.values():
        unseeded = plan.unseeded[experiment.name]
        for one, count in zip(unseeded, _counts(unseeded, experiment, wanted), strict=True):
            for config in _configs(one, experiment, count):
                point, run = _point(experiment, one, config)
                points.append(point)
                runs.setdefault(run.id, run)
    return replace(plan, points=points, runs=runs)


def _counts(
    points: Sequence[UnseededPoint], experiment: Experiment, wanted: Mapping[str, int]
) -> list[int]:
    """How many seeds each point has; what it starts from stands before it."""
    own = [len(_own(point, experiment)) for point in points]
    if not wanted:
        return own
    names = [_first(point, experiment) for point in points]
    counts: dict[str, int] = {}
    for name, least in zip(names, own, strict=True):
        counts[name] = max(least, wanted.get(name, 0), counts.get(name, 0))
    for point, name in zip(reversed(points), reversed(names), strict=True):
        if point.parent:
            parent = _first(point.parent, experiment)
            counts[parent] = max(counts[parent], counts[name])
    return [counts[name] for name in names]


def _own(point: UnseededPoint, experiment: Experiment) -> Sequence[int]:
    return point.arm.seeds or experiment.seeds


def _first(point: UnseededPoint, experiment: Experiment) -> str:
    return run_id(next(_configs(point, experiment, 1)))


def _configs(point: UnseededPoint, experiment: Experiment, count: int) -> Iterator[dict[str, Any]]:
    """The configs of the runs of a point, seed by seed."""
    if point.once:
        yield dict(point.config)
        return
    own = _own(point, experiment)
    for seed in itertools.islice(itertools.chain(own, itertools.count(max(own) + 1)), count):
        yield _seeded(point, seed)


def _seeded(point: UnseededPoint, seed: int) -> dict[str, Any]:
    """The config of one run of a point, which starts from its parent's run of the same seed."""
    config = {**point.config, "seed": seed}
    return config | ({"parent": run_id(_seeded(point.parent, seed))} if point.parent else {})


def _point(
    experiment: Experiment, unseeded: UnseededPoint, config: Mapping[str, Any]
) -> tuple[Point, Run]:
    seed, task, arm = config["seed"], config["task"]["name"], unseeded.arm.name
    setting = grid.shown(unseeded.values)
    label = f"{task} {setting}" if experiment.finetune else setting
    label = f"{label} seed={seed}".strip()
    names = {"experiment": experiment.name, "arm": arm, "label": label}
    run = Run(run_id(config), config, unseeded.size, names)
    return Point(experiment.name, arm, task, seed, unseeded.values, run.id, unseeded.matched), run
