"""Points before their seeds: each with its config, its size and its match.

Each is validated by building its model, so whatever is wrong with a grid is said before anything
starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sweeper.model_process import ModelProcess
from sweeper.plan import grid
from sweeper.plan.compose import Composer, RunTemplate
from sweeper.plan.conditions import holds, lookup
from sweeper.plan.experiment import Arm, Experiment, Match, Pretrainings
from sweeper.plan.match import Solution, solve
from sweeper.plan.plan import Matched, UnseededPoint
from sweeper.plan.sizes import Invalid, Size, Sizes
from sweeper.plan.typed import Typed, typed_path
from sweeper.store.errors import UserError, wrong
from sweeper.store.identity import digest_of, run_id


class Texts:
    """What the text of a config is, asked of the model process once for each."""

    def __init__(self, process: ModelProcess) -> None:
        self._process = process
        self._known: dict[str, dict[str, Any]] = {}

    def of(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """`digest`: what the text is; `describe`: in words; `prepared`: the name of its arrays;
        `metrics`: what is measured on it.

        Raises:
            UserError: the text is not there.
        """
        data = {key: value for key, value in config["data"].items() if key != "digest"}
        key = digest_of([data, config["task"]])
        if key not in self._known:
            [answer] = self._process.ask([{"op": "data", "config": config}])
            if "error" in answer:
                raise UserError(answer["error"])
            self._known[key] = answer
        return self._known[key]


class UnseededPoints:
    """Makes the unseeded points of one command line."""

    def __init__(self, composer: Composer, typed: Typed, texts: Texts, sizes: Sizes) -> None:
        self._composer = composer
        self._typed = typed
        self._texts = texts
        self._sizes = sizes

    def of(self, experiment: Experiment) -> Iterator[UnseededPoint]:
        """Every point of an experiment, sized, before those that are fine-tuned from it.

        Raises:
            UserError: a config that no run can have, a target out of reach, an arm without points.
        """
        done: dict[str, list[UnseededPoint]] = {}
        arms = experiment.arms.values()
        # What an arm is matched to, or starts from, comes before it.
        for arm in sorted(arms, key=lambda arm: 2 if arm.parent else 1 if arm.match else 0):
            if arm.match:
                made = self._matched(experiment, arm, done)
            elif arm.parent:
                made = self._children(experiment, arm, done[arm.parent])
            else:
                made = (self._unseeded(experiment, arm, v) for v in grid.combinations(arm))
                made = (point for point in made if holds(arm.where, point.config))
            done[arm.name] = self._sized(made)
        one = bool(experiment.finetune) and experiment.pretrainings is Pretrainings.one
        for arm in arms:
            if not done[arm.name]:
                name = experiment.yaml or experiment.name
                raise UserError(f"arm {arm.name} of {name} has no points: {_why_none(arm)}.")
            for point in done[arm.name]:
                yield replace(point, once=one)
                for task in experiment.finetune:
                    config = self._child_config(experiment, {"task": task}, point.config)
                    config["parent"] = run_id(point.config)
                    child = replace(point, config=config, parent=None if one else point)
                    yield from self._sized([child])

    def _template(self, experiment: Experiment, groups: Mapping[str, Any]) -> RunTemplate:
        """The config that runs of one experiment and choice of yaml files have in common."""
        chosen = [f"experiment={experiment.yaml}"] if experiment.yaml else []
        own = [text for key, text in self._typed.fixed.items() if key not in groups]
        return self._composer.base([*chosen, *(f"{k}={v}" for k, v in groups.items()), *own])

    def _child_config(
        self, experiment: Experiment, settings: Mapping[str, Any], parent: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The config of a run that starts from the run of another: its model, its tokenizer.

        On the parent's own task it is the parent's config but for the settings; on another task
        dropout, which is no part of the weights, is that task's own.
        """
        groups, plain = self._sorted(settings)
        task = parent["task"]["name"]
        composed = self._template(experiment, {"task": task, **groups}).run({})
        other_task = composed["task"]["name"] != task
        model = dict(parent["model"])
        if other_task:
            model["dropout"] = composed["model"]["dropout"]
        if "model/attention" in groups:
            model["attention"] = composed["model"]["attention"]
        whole = {**(composed if other_task else parent), "model": model}
        config = RunTemplate(whole).run(plain)
        if other_task and "tokenizer" in config["task"]:
            config["task"]["tokenizer"] = self._texts.of(parent)["prepared"]
        return self._with_data(config)

    def _unseeded(
        self, experiment: Experiment, arm: Arm, values: Mapping[str, Any]
    ) -> UnseededPoint:
        groups, plain = self._sorted({**arm.set, **values})
        config = self._template(experiment, groups).run(plain)
        return UnseededPoint(arm, values, self._with_data(config))

    def _sorted(self, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What chooses a yaml file, and what sets a key."""
        groups = {k: v for k, v in settings.items() if self._composer.is_group(k)}
        return groups, {k.lstrip("+"): v for k, v in settings.items() if k not in groups}

    def _with_data(self, config: dict[str, Any]) -> dict[str, Any]:
        """The config with `data.digest` saying what its text is.

        A folder of local data may hold one folder per task; then each task reads its own.
        """
        data, task = config["data"], config["task"]["name"]
        if data.get("root") and data["source"] != "local":
            expected = f"no folder, since data.source={data['source']}"
            raise wrong("data.root", data["root"], expected, "add data=local, or leave it out")
        if data.get("root"):
            root = typed_path("data.root", data["root"])
            data["root"] = str(root / task if (root / task).is_dir() else root)
        data["digest"] = self._texts.of(config)["digest"]
        return config

    def _sized(self, points: Iterable[UnseededPoint]) -> list[UnseededPoint]:
        """The points with their sizes; UserError if one of them can have none."""
        points = [*points]
        sizes = self._sizes.of([unseeded.config for unseeded in points])
        faults = [size for size in sizes if isinstance(size, Invalid)]
        if faults:
            more = f" (and {len(faults) - 1} more points like it)" if len(faults) > 1 else ""
            raise UserError(f"{faults[0]}{more}")
        return [
            replace(d, size=s, config=_answered(d.config, s))
            for d, s in zip(points, sizes, strict=True)
            if isinstance(s, dict)
        ]

    def _children(
        self, experiment: Experiment, arm: Arm, parents: Iterable[UnseededPoint]
    ) -> Iterator[UnseededPoint]:
        """Points that start from those of another arm, each with every combination."""
        for parent in parents:
            for values in grid.combinations(arm):
                config = self._child_config(experiment, {**arm.set, **values}, parent.config)
                if holds(arm.where, config):
                    yield UnseededPoint(arm, {**parent.values, **values}, config, parent=parent)

    def _matched(
        self, experiment: Experiment, arm: Arm, done: Mapping[str, list[UnseededPoint]]
    ) -> Iterator[UnseededPoint]:
        match = arm.match
        assert match is not None
        if isinstance(match.to, int):
            targets: list[tuple[str, int, Mapping[str, Any]]] = [(f"{match.to:,}", match.to, {})]
        else:
            targets = [
                (f"{match.to} {grid.shown(d.values)}", d.size[match.count], _same(match, d.config))
                for d in done[match.to]
                if holds(match.where, d.config)
            ]
        for values in grid.combinations(arm):
            for label, target, same in targets:
                start = self._unseeded(experiment, arm, {**values, **same})
                if holds(arm.where, start.config):
                    yield self._solved(experiment, start, label, target)

    def _solved(
        self, experiment: Experiment, start: UnseededPoint, label: str, target: int
    ) -> UnseededPoint:
        match = start.arm.match
        assert match is not None
        template = RunTemplate(start.config)

        def count(value: int) -> int | None:
            [size] = self._sizes.of([template.run({match.solve: value})])
            return None if isinstance(size, Invalid) else size[match.count]

        step = match.multiple_of
        if isinstance(step, str):
            step = int(lookup(step, start.config))
        where = f"{experiment.yaml}, arm {start.arm.name}"
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


def _same(match: Match, config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a matched point shares with the point it is matched to, with their values."""
    try:
        return {key: lookup(key, config) for key in match.same}
    except KeyError as unknown:
        expected, remedy = "keys of the config", "correct it in the experiment's yaml"
        raise wrong("match.same", list(match.same), expected, f"{remedy} ({unknown})") from None


def _answered(config: Mapping[str, Any], size: Size) -> dict[str, Any]:
    """The config with the head size that `null` stands for: the same model is the same run."""
    model = config["model"]
    return {**config, "model": {**model, "head_size": size.get("head_size", model["head_size"])}}


def _unmatched(
    where: str, key: str, count: str, tolerance: float, label: str, nearest: Solution
) -> UserError:
    return UserError(
        f"{where}: no {key} brings {count} within {tolerance:.2%} of {nearest.target:,} ({label}); "
        f"the nearest is {key}={nearest.value} with {nearest.achieved:,} ({nearest.error:+.2%}); "
        "widen match.tolerance or choose another target."
    )


def _why_none(arm: Arm) -> str:
    if arm.match and arm.match.where:
        return f"no point of {arm.match.to} is one where {arm.match.where}"
    return f"of its grid, `where: {arm.where}` leaves none"
