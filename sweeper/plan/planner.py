"""From a command line to a plan: every run that is needed, and every point that uses it.

    typed overrides -> experiments -> arms -> drafts (a config each, still without a seed)
                    -> sizes, matching -> points and the runs they share

A draft is validated by building its model, so whatever is wrong with a grid is said before anything
starts. Two points with the same config are one run, whichever arm or experiment asked for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweeper.model_process import ModelProcess
from sweeper.plan import grid
from sweeper.plan.compose import Composer, RunTemplate, Typed
from sweeper.plan.experiment import Arm, Experiment, grid_by_hand, read_experiment, with_typed
from sweeper.plan.identity import digest_of, run_id
from sweeper.plan.match import Solution, solve
from sweeper.plan.plan import Draft, Matched, Plan, Point, Run
from sweeper.plan.sizes import Invalid, Size, Sizes
from sweeper.plan.where import holds
from sweeper.store.errors import UserError, wrong


class Planner:
    """Plans command lines. One instance shares what it composed, built and hashed."""

    def __init__(self, composer: Composer, process: ModelProcess, *, max_runs: int) -> None:
        self._composer = composer
        self._process = process
        self._max_runs = max_runs
        self._data: dict[str, dict[str, str]] = {}

    def plan(self, arguments: Iterable[str]) -> Plan:
        """The plan of one command line.

        Raises:
            UserError: anything that keeps a single run of it from being trained.
        """
        typed = self._composer.read(arguments, max_points=self._max_runs)
        template = self._template(typed, {})
        self._outputs = Path(template.beside("paths")["outputs"]).expanduser().absolute()
        self._sizes = Sizes(self._process, self._outputs / "cache" / "sizes.json")
        scale = str(template.beside("scale")["name"])
        experiments = self._experiments(typed, template, scale)
        points: list[Point] = []
        texts: dict[str, str] = {}
        runs: dict[str, Run] = {}
        for experiment in experiments.values():
            for draft in self._drafts(experiment, typed):
                texts.setdefault(experiment.name, self._data_of(draft.config)["describe"])
                for point, run in self._runs(experiment, draft, typed):
                    points.append(point)
                    runs.setdefault(run.id, run)
        self._sizes.save()
        return Plan(scale, self._outputs, experiments, texts, points, runs)

    def _experiments(
        self, typed: Typed, template: RunTemplate, scale: str
    ) -> dict[str, Experiment]:
        axes = {key: values for key, values in typed.axes.items() if key != "seed"}
        seeds = typed.axes.get("seed") or (
            [template.run({})["seed"]] if "seed" in typed.fixed or not typed.experiments else None
        )
        found = {}
        for name in typed.experiments:
            whole = self._template(typed, {}, experiment=name).beside("experiment")
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
            for seed in seeds:
                if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
                    raise wrong(
                        "seed", seed, "whole numbers of at least 0", "for example seed=0,1,2"
                    )
            found = {n: replace(e, seeds=tuple(dict.fromkeys(seeds))) for n, e in found.items()}
        points = sum(len(e.seeds) * sum(map(grid.count, e.arms.values())) for e in found.values())
        grid.check_size(points, self._max_runs, "the sweep")
        return found

    def _template(
        self, typed: Typed, groups: Mapping[str, Any], *, experiment: str | None = None
    ) -> RunTemplate:
        """The config that runs of one experiment and choice of yaml files have in common."""
        chosen = [f"experiment={experiment}"] if experiment else []
        own = [text for key, text in typed.fixed.items() if key not in groups]
        return self._composer.base([*chosen, *(f"{k}={v}" for k, v in groups.items()), *own])

    def _drafts(self, experiment: Experiment, typed: Typed) -> Iterator[Draft]:
        """Every draft of an experiment, sized; matched arms after the arms they are matched to."""
        done: dict[str, list[Draft]] = {}
        name = experiment.name if experiment.name in typed.experiments else None
        for arm in experiment.arms.values():
            if not arm.match:
                drafts = [
                    draft
                    for values in grid.combinations(arm)
                    if holds(arm.where, (draft := self._draft(arm, values, typed, name)).config)
                ]
                done[arm.name] = self._sized(experiment, drafts)
        for arm in experiment.arms.values():
            if arm.match:
                done[arm.name] = self._matched(experiment, arm, done, typed, name)
        for arm in experiment.arms.values():
            if not done[arm.name]:
                raise UserError(
                    f"arm {arm.name} of {experiment.name} has no points; "
                    f"its grid and `where: {arm.where}` leave none."
                )
            yield from done[arm.name]

    def _draft(self, arm: Arm, values: Mapping[str, Any], typed: Typed, name: str | None) -> Draft:
        everything = {**arm.set, **values}
        groups = {k: v for k, v in everything.items() if self._composer.is_group(k)}
        plain = {k.lstrip("+"): v for k, v in everything.items() if k not in groups}
        config = self._template(typed, groups, experiment=name).run(plain)
        return Draft(arm, values, self._with_data(config))

    def _with_data(self, config: dict[str, Any]) -> dict[str, Any]:
        """The config with `data.digest` saying what its text is.

        A folder of local data may hold one folder per task; then each task reads its own.
        """
        data, task = config["data"], config["task"]["name"]
        if data.get("root"):
            root = Path(data["root"]).expanduser().absolute()
            data["root"] = str(root / task if (root / task).is_dir() else root)
        data["digest"] = self._data_of(config)["digest"]
        return config

    def _data_of(self, config: Mapping[str, Any]) -> dict[str, str]:
        """`digest`: what the text is; `describe`: in words; `prepared`: the name of its arrays."""
        data = {key: value for key, value in config["data"].items() if key != "digest"}
        key = digest_of([data, config["task"]])
        if key not in self._data:
            [answer] = self._process.ask([{"op": "data", "config": config}])
            if "error" in answer:
                raise UserError(answer["error"])
            self._data[key] = answer
        return self._data[key]

    def _sized(self, experiment: Experiment, drafts: list[Draft]) -> list[Draft]:
        sizes = self._sizes.of([draft.config for draft in drafts])
        faults = [size for size in sizes if isinstance(size, Invalid)]
        if faults:
            more = f" (and {len(faults) - 1} more points like it)" if len(faults) > 1 else ""
            raise UserError(f"{faults[0]}{more}")
        return [
            replace(d, size=s, config=_answered(d.config, s))
            for d, s in zip(drafts, sizes, strict=True)
            if isinstance(s, dict)
        ]

    def _matched(
        self,
        experiment: Experiment,
        arm: Arm,
        done: Mapping[str, list[Draft]],
        typed: Typed,
        name: str | None,
    ) -> list[Draft]:
        match = arm.match
        assert match is not None
        if isinstance(match.to, int):
            targets = [(f"{match.to:,}", match.to)]
        else:
            targets = [
                (f"{match.to} {grid.shown(d.values)}", d.size[match.count])
                for d in done[match.to]
                if holds(match.where, d.config)
            ]
        drafts = []
        for values in grid.combinations(arm):
            start = self._draft(arm, values, typed, name)
            if holds(arm.where, start.config):
                drafts += [
                    self._solved(experiment, start, label, target) for label, target in targets
                ]
        return self._sized(experiment, drafts)

    def _solved(self, experiment: Experiment, start: Draft, label: str, target: int) -> Draft:
        match = start.arm.match
        assert match is not None
        template = RunTemplate(start.config)

        def count(value: int) -> int | None:
            [size] = self._sizes.of([template.run({match.solve: value})])
            return None if isinstance(size, Invalid) else size[match.count]

        step = match.multiple_of
        if isinstance(step, str):
            section, _, key = step.partition(".")
            step = int(start.config[section][key])
        where = f"{experiment.name}, arm {start.arm.name}"
        try:
            solution = solve(count, target, step=step)
        except UserError as problem:
            raise UserError(f"{where}: {match.solve} cannot be solved for: {problem}.") from None
        if abs(solution.error) > match.tolerance:
            raise _unmatched(where, match.solve, match.count, match.tolerance, label, solution)
        matched = Matched(label, match.count, target, solution.achieved, solution.error)
        values = {**start.values, match.solve: solution.value}
        return replace(
            start,
            values=values,
            matched=matched,
            config=template.run({match.solve: solution.value}),
        )

    def _runs(
        self, experiment: Experiment, draft: Draft, typed: Typed
    ) -> Iterator[tuple[Point, Run]]:
        """The points of a draft with their runs, a parent before its children."""
        if not experiment.finetune:
            for seed in experiment.seeds:
                yield _point(experiment, draft, {**draft.config, "seed": seed}, draft.size)
            return
        pretraining = _point(experiment, draft, draft.config, draft.size)
        yield pretraining
        for task in experiment.finetune:
            child = self._child(experiment, draft, task, parent=pretraining[1], typed=typed)
            for seed in experiment.seeds:
                yield _point(experiment, child, {**child.config, "seed": seed}, child.size)

    def _child(
        self, experiment: Experiment, draft: Draft, task: str, *, parent: Run, typed: Typed
    ) -> Draft:
        """A draft's pre-training fine-tuned on `task`: its model, its tokenizer, its weights."""
        template = self._template(typed, {"task": task}, experiment=experiment.name)
        config = self._with_data({**template.run({}), "model": parent.config["model"]})
        config["task"]["tokenizer"] = self._data_of(parent.config)["prepared"]
        config["parent"] = parent.id
        [child] = self._sized(experiment, [replace(draft, config=config)])
        return child


def _point(
    experiment: Experiment, draft: Draft, config: Mapping[str, Any], size: Size
) -> tuple[Point, Run]:
    seed, task, arm = config["seed"], config["task"]["name"], draft.arm.name
    setting = grid.shown(draft.values)
    label = f"{task} {setting}" if experiment.finetune else setting
    label = f"{label} seed={seed}".strip()
    names = {"experiment": experiment.name, "arm": arm, "label": label}
    run = Run(run_id(config), config, size, names)
    return Point(experiment.name, arm, task, seed, draft.values, run.id, draft.matched), run


def _answered(config: Mapping[str, Any], size: Size) -> dict[str, Any]:
    """The config with the head size that `null` stands for: the same model is the same run."""
    return {**config, "model": {**config["model"], "head_size": size["head_size"]}}


def _unmatched(
    where: str, key: str, count: str, tolerance: float, label: str, nearest: Solution
) -> UserError:
    return UserError(
        f"{where}: no {key} brings {count} within {tolerance:.2%} of {nearest.target:,} ({label}); "
        f"the nearest is {key}={nearest.value} with {nearest.achieved:,} ({nearest.error:+.2%}); "
        "widen match.tolerance or choose another target."
    )
