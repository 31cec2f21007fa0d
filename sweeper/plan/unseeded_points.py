"""Points before their seeds: each with its config, its size and its match.

Each is validated by building its model, so whatever is wrong with a grid is said before anything
starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from sweeper.model_process import ModelProcess
from sweeper.plan import grid
from sweeper.plan.compose import Composer, RunTemplate
from sweeper.plan.conditions import holds, lookup
from sweeper.plan.experiment import Arm, Experiment, Match, Pretrainings
from sweeper.plan.match import Solution, solve
from sweeper.plan.plan import Matched, UnseededPoint
from sweeper.plan.sizes import Invalid, Sizes
from sweeper.plan.typed import Typed, typed_path
from sweeper.store.errors import UserError, wrong
from sweeper.store.identity import digest_of, run_id


class _Target(NamedTuple):
    """What a point is matched to: in words, how large it is, and the values that it shares."""

    label: str
    size: int
    same: Mapping[str, Any]


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
        arms = experiment.arms.values()
        done: dict[str, list[UnseededPoint]] = {name: [] for name in experiment.arms}
        # What an arm is matched to, or starts from, comes before it.
        for arm in sorted(arms, key=lambda arm: 2 if arm.parent else 1 if arm.match else 0):
            made = [*self._made(experiment, arm, done)]
            sizes = self._sizes.of([point.config for point in made])
            for point, size in zip(made, sizes, strict=True):
                model = dict(point.config["model"])
                # What `null` stands for: the same model is the same run.
                model["head_size"] = size.get("head_size", model["head_size"])
                config = {**point.config, "model": model}
                done[arm.name].append(replace(point, size=size, config=config))
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
                    [size] = self._sizes.of([config])
                    yield replace(point, config=config, size=size, parent=None if one else point)

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

    def _made(
        self, experiment: Experiment, arm: Arm, done: Mapping[str, list[UnseededPoint]]
    ) -> Iterator[UnseededPoint]:
        """The points of an arm that its condition admits, equal ones once, not sized.

        Every combination of its values, the last axis varying fastest, for each point that it
        starts from; and each combination matched to each of its targets.
        """
        chosen = itertools.product(*arm.grid.values())
        every = [dict(zip(arm.grid, values, strict=True)) for values in chosen]
        combinations = [*{repr(values): values for values in every}.values()]
        if any("," in axis for axis in arm.grid):
            combinations = [grid.apart(arm, values) for values in combinations]
        if arm.parent:
            for parent, values in itertools.product(done[arm.parent], combinations):
                config = self._child_config(experiment, {**arm.set, **values}, parent.config)
                if holds(arm.where, config):
                    yield UnseededPoint(arm, {**parent.values, **values}, config, parent=parent)
            return
        targets = _targets(arm.match, done) if arm.match else [None]
        for values, target in itertools.product(combinations, targets):
            given = {**values, **target.same} if target else values
            groups, plain = self._sorted({**arm.set, **given})
            config = self._with_data(self._template(experiment, groups).run(plain))
            if holds(arm.where, config):
                start = UnseededPoint(arm, given, config)
                yield self._solved(experiment, start, target) if target else start

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

    def _solved(
        self, experiment: Experiment, start: UnseededPoint, target: _Target
    ) -> UnseededPoint:
        match = start.arm.match
        assert match is not None
        template = RunTemplate(start.config)

        def count(value: int) -> int | None:
            [size] = self._sizes.answers([template.run({match.solve: value})])
            return None if isinstance(size, Invalid) else size[match.count]

        step = match.multiple_of
        if isinstance(step, str):
            step = int(lookup(step, start.config))
        where = f"{experiment.yaml}, arm {start.arm.name}"
        try:
            solution = solve(count, target.size, step=step)
        except UserError as problem:
            raise UserError(f"{where}: {match.solve} cannot be solved for: {problem}.") from None
        if abs(solution.error) > match.tolerance:
            raise _unmatched(where, match, target.label, solution)
        matched = Matched(target.label, match.count, target.size, solution.achieved, solution.error)
        solved = {match.solve: solution.value}
        values, config = {**start.values, **solved}, template.run(solved)
        return replace(start, values=values, matched=matched, config=config)


def _targets(match: Match, done: Mapping[str, list[UnseededPoint]]) -> list[_Target]:
    if isinstance(match.to, int):
        return [_Target(f"{match.to:,}", match.to, {})]
    return [
        _Target(f"{match.to} {grid.shown(d.values)}", d.size[match.count], _same(match, d.config))
        for d in done[match.to]
        if holds(match.where, d.config)
    ]


def _same(match: Match, config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a matched point shares with the point it is matched to, with their values."""
    try:
        return {key: lookup(key, config) for key in match.same}
    except KeyError as unknown:
        expected, remedy = "keys of the config", "correct it in the experiment's yaml"
        raise wrong("match.same", list(match.same), expected, f"{remedy} ({unknown})") from None


def _unmatched(where: str, match: Match, label: str, nearest: Solution) -> UserError:
    within = f"within {match.tolerance:.2%} of {nearest.target:,} ({label})"
    found = f"{match.solve}={nearest.value} with {nearest.achieved:,} ({nearest.error:+.2%})"
    return UserError(
        f"{where}: no {match.solve} brings {match.count} {within}; the nearest is {found}; "
        "widen match.tolerance or choose another target."
    )


def _why_none(arm: Arm) -> str:
    if arm.match and arm.match.where:
        return f"no point of {arm.match.to} is one where {arm.match.where}"
    return f"of its grid, `where: {arm.where}` leaves none"
