"""Stop 2 of the road: from a command line to a plan, every run needed and every point using it.

    typed overrides -> experiments -> arms -> unseeded points (a config and a size each)
                    -> points and the runs they share

Two points with the same config are one run, whichever arm or experiment asked for it. Seeds are
counted, not chosen: a point of n seeds has the first n of its own, which are those of its arm or of
its experiment, and of the whole numbers that follow the largest of these; so more seeds are further
runs, never others. Next:
match.py solves what is to be matched; sweeper/executor.py freezes the plan, sweeper/run/schedule.py
has its runs trained.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sweeper.model_process import ModelProcess
from sweeper.plan import grid
from sweeper.plan.compose import Composer, RunTemplate
from sweeper.plan.experiment import Arm, Experiment, with_typed
from sweeper.plan.experiments.checks import check_results
from sweeper.plan.experiments.names import check_name, name_of
from sweeper.plan.experiments.reading import read_experiment
from sweeper.plan.plan import Plan, Point, Run, UnseededPoint
from sweeper.plan.sizes import Sizes
from sweeper.plan.tuning.tune import check
from sweeper.plan.typed import Typed, read, typed_path
from sweeper.plan.unseeded_points import Texts, UnseededPoints
from sweeper.store.errors import wrong
from sweeper.store.identity import run_id


class Planner:
    """Plans command lines. One instance shares what it composed and what it asked of texts."""

    def __init__(self, composer: Composer, process: ModelProcess, *, max_runs: int) -> None:
        self._composer = composer
        self._process = process
        self._max_runs = max_runs
        self._texts = Texts(process)

    def plan(self, arguments: Iterable[str]) -> Plan:
        """The plan of one command line.

        Raises:
            UserError: anything that keeps a single run of it from being trained.
        """
        typed = read(arguments, self._composer, max_points=self._max_runs)
        # Keys of one experiment's task may be typed, so it is composed with that experiment.
        chosen = [f"experiment={name}" for name in typed.experiments[:1]]
        template = self._composer.base([*chosen, *typed.fixed.values()])
        paths = template.beside("paths")
        outputs = typed_path("paths.outputs", paths["outputs"] if paths else None)
        scale = str(template.beside("scale")["name"])
        if (name := template.beside("name")) is not None:
            check_name(name, len(typed.experiments))
        experiments = self._experiments(typed, template, scale)
        sizes = Sizes(self._process, outputs / "cache" / "sizes.json")
        made = UnseededPoints(self._composer, typed, self._texts, sizes)
        points = {name: [*made.of(one)] for name, one in experiments.items()}
        texts = {name: self._texts.of(of[0].config)["describe"] for name, of in points.items()}
        for name, experiment in experiments.items():
            check_results(experiment, points[name], self._measured(points[name]))
        sizes.save()
        return seeded(Plan(scale, outputs, experiments, texts, points), {})

    def _measured(self, points: Iterable[UnseededPoint]) -> dict[str, Sequence[str]]:
        """By task of the points, the metrics it says that it measures."""
        by_task = {str(point.config["task"]["name"]): point.config for point in points}
        return {task: self._texts.of(one).get("metrics", ()) for task, one in by_task.items()}

    def _experiments(
        self, typed: Typed, template: RunTemplate, scale: str
    ) -> dict[str, Experiment]:
        axes = {key: values for key, values in typed.axes.items() if key != "seed"}
        seeds = typed.axes.get("seed") or (
            [template.run({})["seed"]] if "seed" in typed.fixed or not typed.experiments else None
        )
        found = {}
        for yaml in typed.experiments:
            chosen = [f"experiment={yaml}", *typed.fixed.values()]
            whole = self._composer.base(chosen).beside("experiment")
            scales = self._composer.options("scale")
            shipped = read_experiment(yaml, whole, scale=scale, scales=scales, typed=typed.values)
            name = template.beside("name") or name_of(typed, shipped, self._composer)
            found[name] = replace(with_typed(shipped, axes, typed.values), name=name)
        if not found:
            name = template.beside("name") or name_of(typed, None, self._composer)
            found[name] = Experiment(
                name=name,
                title=f"{template.run({})['task']['name']}: {', '.join(axes) or 'one run'}",
                metric=template.beside("metric"),
                arms={"grid": Arm("grid", " x ".join(axes) or "run", grid=axes)},
                x=next(iter(axes), "params_total"),
            )
        if seeds is not None:
            found = {n: replace(e, seeds=_checked(seeds)) for n, e in found.items()}
        for experiment in found.values():
            check(experiment)
        points = sum(len(e.seeds) * sum(map(grid.count, e.arms.values())) for e in found.values())
        grid.check_size(points, self._max_runs, "the sweep")
        return found


def _checked(given: Iterable[Any]) -> list[int]:
    for seed in given:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise wrong("seed", seed, "whole numbers of at least 0", "for example seed=0,1,2")
    return list(dict.fromkeys(given))


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
            for seed in _seeds(one, experiment, count):
                config = _config(one, seed)
                run, task, setting = run_id(config), config["task"]["name"], grid.shown(one.values)
                about = one.values, run, one.matched, one.chosen
                points.append(Point(experiment.name, one.arm.name, task, seed, *about))
                words = f"{task} {setting}" if experiment.finetune else setting
                label = f"{words} seed={seed}".strip()
                names = {"experiment": experiment.name, "arm": one.arm.name, "label": label}
                runs.setdefault(run, Run(run, config, one.size, names))
    return replace(plan, points=points, runs=runs)


def _counts(
    points: Sequence[UnseededPoint], experiment: Experiment, wanted: Mapping[str, int]
) -> list[int]:
    """How many seeds each point has; what it starts from stands before it."""
    own = [len(point.arm.seeds or experiment.seeds) for point in points]
    if not wanted:
        return own

    def first(point: UnseededPoint) -> str:
        return run_id(_config(point, _seeds(point, experiment, 1)[0]))

    names = [first(point) for point in points]
    counts: dict[str, int] = {}
    for name, least in zip(names, own, strict=True):
        counts[name] = max(least, wanted.get(name, 0), counts.get(name, 0))
    for point, name in zip(reversed(points), reversed(names), strict=True):
        if point.parent:
            parent = first(point.parent)
            counts[parent] = max(counts[parent], counts[name])
    return [counts[name] for name in names]


def _seeds(point: UnseededPoint, experiment: Experiment, count: int) -> list[int]:
    """The first seeds of a point."""
    if point.once:
        return [point.config["seed"]]
    own = point.arm.seeds or experiment.seeds
    apart = experiment.tune.seeds if experiment.tune else []
    further = (seed for seed in itertools.count(max(own) + 1) if seed not in apart)
    return [*itertools.islice(itertools.chain(own, further), count)]


def _config(point: UnseededPoint, seed: int) -> dict[str, Any]:
    """The config of one run of a point, which starts from its parent's run of the same seed."""
    config = {**point.config, "seed": seed}
    return config | ({"parent": run_id(_config(point.parent, seed))} if point.parent else {})
