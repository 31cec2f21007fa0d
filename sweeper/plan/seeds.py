"""From points before their seeds to a plan: which seeds each has, and the runs that these share.

Seeds are counted, not chosen: a point of n seeds has the first n of the experiment's own, followed
by the least whole numbers that are not among those. So more seeds are always further runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sweeper.plan import grid
from sweeper.plan.experiment import Experiment
from sweeper.plan.plan import Draft, Plan, Point, Run
from sweeper.store.identity import run_id


def seeded(plan: Plan, wanted: Mapping[str, int]) -> Plan:
    """The same plan with more seeds.

    Args:
        plan: its `drafts` are what is given seeds.
        wanted: by the run of a point's first seed, how many seeds it is to have, where that is more
            than the experiment's own. What it starts from has as many; points of several arms or
            experiments that are one run have equally many.
    """
    points: list[Point] = []
    runs: dict[str, Run] = {}
    for experiment in plan.experiments.values():
        drafts = plan.drafts[experiment.name]
        for draft, count in zip(drafts, _counts(drafts, experiment, wanted), strict=True):
            for config in _configs(draft, experiment, count):
                point, run = _point(experiment, draft, config)
                points.append(point)
                runs.setdefault(run.id, run)
    return replace(plan, points=points, runs=runs)


def _counts(
    drafts: Sequence[Draft], experiment: Experiment, wanted: Mapping[str, int]
) -> list[int]:
    """How many seeds each draft has; those it starts from stand before it, and have as many."""
    own = len(experiment.seeds)
    if not wanted:
        return [own] * len(drafts)
    names = [_first(draft, experiment) for draft in drafts]
    counts = {name: max(own, wanted.get(name, 0)) for name in names}
    for draft, name in reversed([*zip(drafts, names, strict=True)]):
        if draft.parent:
            parent = _first(draft.parent, experiment)
            counts[parent] = max(counts[parent], counts[name])
    return [counts[name] for name in names]


def _first(draft: Draft, experiment: Experiment) -> str:
    return run_id(next(_configs(draft, experiment, 1)))


def _configs(draft: Draft, experiment: Experiment, count: int) -> Iterator[dict[str, Any]]:
    """The configs of the runs of a draft, seed by seed."""
    if draft.once:
        yield dict(draft.config)
        return
    further = (seed for seed in itertools.count() if seed not in experiment.seeds)
    for seed in itertools.islice(itertools.chain(experiment.seeds, further), count):
        yield _seeded(draft, seed)


def _seeded(draft: Draft, seed: int) -> dict[str, Any]:
    """The config of one run of a draft, which starts from its parent's run of the same seed."""
    config = {**draft.config, "seed": seed}
    return config | ({"parent": run_id(_seeded(draft.parent, seed))} if draft.parent else {})


def _point(experiment: Experiment, draft: Draft, config: Mapping[str, Any]) -> tuple[Point, Run]:
    seed, task, arm = config["seed"], config["task"]["name"], draft.arm.name
    setting = grid.shown(draft.values)
    label = f"{task} {setting}" if experiment.finetune else setting
    label = f"{label} seed={seed}".strip()
    names = {"experiment": experiment.name, "arm": arm, "label": label}
    run = Run(run_id(config), config, draft.size, names)
    return Point(experiment.name, arm, task, seed, draft.values, run.id, draft.matched), run
