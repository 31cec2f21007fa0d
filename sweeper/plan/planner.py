"""Stop 2 of the road: from a command line to a plan, every run needed and every point using it.

    typed overrides -> experiments -> arms -> unseeded points (a config and a size each)
                    -> points and the runs they share

Two points with the same config are one run, whichever arm or experiment asked for it. Next:
match.py solves what is to be matched; sweeper/sweep.py freezes the plan, sweeper/run/schedule.py
has its runs trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sweeper.model_process import ModelProcess
from sweeper.plan import grid
from sweeper.plan.compose import Composer, RunTemplate
from sweeper.plan.experiment import (
    Experiment,
    Pretrainings,
    grid_by_hand,
    read_experiment,
    with_typed,
)
from sweeper.plan.plan import Plan, Point, Run, UnseededPoint
from sweeper.plan.sizes import Size, Sizes
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
        experiments = self._experiments(typed, template, scale)
        sizes = Sizes(self._process, outputs / "cache" / "sizes.json")
        unseeded_points = UnseededPoints(self._composer, typed, self._texts, sizes)
        points: list[Point] = []
        texts: dict[str, str] = {}
        runs: dict[str, Run] = {}
        for experiment in experiments.values():
            for unseeded in unseeded_points.of(experiment):
                texts.setdefault(experiment.name, self._texts.of(unseeded.config)["describe"])
                for point, run in self._runs(experiment, unseeded, unseeded_points):
                    points.append(point)
                    runs.setdefault(run.id, run)
        sizes.save()
        return Plan(scale, outputs, experiments, texts, points, runs)

    def _experiments(
        self, typed: Typed, template: RunTemplate, scale: str
    ) -> dict[str, Experiment]:
        axes = {key: values for key, values in typed.axes.items() if key != "seed"}
        seeds = typed.axes.get("seed") or (
            [template.run({})["seed"]] if "seed" in typed.fixed or not typed.experiments else None
        )
        found = {}
        for name in typed.experiments:
            chosen = [f"experiment={name}", *typed.fixed.values()]
            whole = self._composer.base(chosen).beside("experiment")
            found[name] = with_typed(read_experiment(name, whole, scale=scale), axes, typed.values)
        if not found:
            words = "-".join(key.rpartition(".")[2].replace("/", "-") for key in axes) or "run"
            task = template.run({})["task"]
            by_hand = grid_by_hand(
                f"grid-{words}",
                f"{task['name']}: {', '.join(axes) or 'one run'}",
                axes,
                template.beside("metric"),
            )
            found[by_hand.name] = by_hand
        if seeds is not None:
            found = {n: replace(e, seeds=_seeds(seeds)) for n, e in found.items()}
        points = sum(len(e.seeds) * sum(map(grid.count, e.arms.values())) for e in found.values())
        grid.check_size(points, self._max_runs, "the sweep")
        return found

    def _runs(
        self, experiment: Experiment, unseeded: UnseededPoint, unseeded_points: UnseededPoints
    ) -> Iterator[tuple[Point, Run]]:
        """A point with each of its seeds and the run of that, a parent before its children."""
        if not experiment.finetune:
            for seed in experiment.seeds:
                yield _point(experiment, unseeded, _seeded(unseeded, seed), unseeded.size)
            return
        one = experiment.pretrainings is Pretrainings.one
        for seeds in [experiment.seeds] if one else [[seed] for seed in experiment.seeds]:
            config = unseeded.config if one else _seeded(unseeded, seeds[0])
            pretraining = _point(experiment, unseeded, config, unseeded.size)
            yield pretraining
            for task in experiment.finetune:
                child = self._child(experiment, unseeded, task, pretraining[1], unseeded_points)
                for seed in seeds:
                    yield _point(experiment, child, {**child.config, "seed": seed}, child.size)

    def _child(
        self,
        experiment: Experiment,
        unseeded: UnseededPoint,
        task: str,
        parent: Run,
        unseeded_points: UnseededPoints,
    ) -> UnseededPoint:
        """A point's pre-training fine-tuned on `task`: its model, its tokenizer, its weights."""
        config = unseeded_points.child_config(experiment, {"task": task}, parent.config)
        config["parent"] = parent.id
        [child] = unseeded_points.sized([replace(unseeded, config=config)])
        return child


def _seeds(given: Iterable[Any]) -> list[int]:
    for seed in given:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise wrong("seed", seed, "whole numbers of at least 0", "for example seed=0,1,2")
    return list(dict.fromkeys(given))


def _seeded(unseeded: UnseededPoint, seed: int) -> dict[str, Any]:
    """The config of one run of a point, which starts from its parent's run of the same seed."""
    config = {**unseeded.config, "seed": seed}
    return config | ({"parent": run_id(_seeded(unseeded.parent, seed))} if unseeded.parent else {})


def _point(
    experiment: Experiment, unseeded: UnseededPoint, config: Mapping[str, Any], size: Size
) -> tuple[Point, Run]:
    seed, task, arm = config["seed"], config["task"]["name"], unseeded.arm.name
    setting = grid.shown(unseeded.values)
    label = f"{task} {setting}" if experiment.finetune else setting
    label = f"{label} seed={seed}".strip()
    names = {"experiment": experiment.name, "arm": arm, "label": label}
    run = Run(run_id(config), config, size, names)
    return Point(experiment.name, arm, task, seed, unseeded.values, run.id, unseeded.matched), run
