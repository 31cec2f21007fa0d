"""What an experiment says of its results, held against its points before anything is trained."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sweeper.plan import grid
from sweeper.plan.compose import Composer, RunTemplate
from sweeper.plan.experiment import (
    Arm,
    Experiment,
    Match,
    Pretrainings,
    check,
    read_experiment,
    with_typed,
)
from sweeper.plan.grid import holds, lookup
from sweeper.plan.match import Solution, solve
from sweeper.plan.overrides import Typed, check_name, name_of, read, typed_path
from sweeper.plan.plan import Matched, Plan, Point, Run, UnseededPoint
from sweeper.plan.sizes import Invalid, Sizes
from sweeper.size_server import SizeServer
from sweeper.store import registry
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.identity import digest_of, run_id

Measured = Mapping[str, Collection[str]]
"""By task, the metrics it measures; none of a task that does not say."""


def check_results(
    experiment: Experiment, points: Sequence[UnseededPoint], measured: Measured
) -> None:
    """UserError for a figure, a claim, a metric, a margin or an `x` that its results cannot have.

    Whether its points can decide a claim is another question (results/judge.py).
    """
    name = experiment.yaml or experiment.name
    registry.check(registry.FIGURES, experiment.figure, f"experiment.figure of {name}")
    for claim in experiment.claims:
        registry.check(registry.CLAIMS, claim, f"experiment.claims of {name}")
    shown = dict.fromkeys(metric for _, metric in _asked(experiment, points))
    for task, metric in _asked(experiment, points):
        known = measured.get(task)
        if known and metric not in known:
            expected = f"what task {task} measures ({', '.join(known)})"
            if experiment.yaml:
                raise invalid_value(
                    f"experiment.metric of {name}", metric, expected, "name one of them"
                )
            tasks = ",".join(measured)
            remedy = "sweep tasks one by one, or give metric=... that all of them measure"
            raise invalid_value(f"metric of task={tasks}", metric, expected, remedy)
    for metric in experiment.margin:
        if metric not in shown:
            expected = f"a metric that is shown ({', '.join(shown)})"
            raise invalid_value(
                f"experiment.margin of {name}", metric, expected, "name one of them"
            )
    if not any(_has(point, experiment.x) for point in points):
        expected = f"a key of the config, or one of {', '.join(points[0].size)}"
        raise invalid_value(f"experiment.x of {name}", experiment.x, expected, "correct it")


def _asked(experiment: Experiment, points: Sequence[UnseededPoint]) -> Iterator[tuple[str, str]]:
    """The metrics that are looked for, each with the task of a run that is to have it."""
    seen = set()
    for point in points:
        task = str(point.config["task"]["name"])
        tuned = experiment.finetune.get(task, [])
        own = tuned if experiment.finetune else [point.arm.metric or experiment.metric]
        for metric in own:
            if (task, metric) not in seen:
                seen.add((task, metric))
                yield task, metric


def _has(point: UnseededPoint, key: str) -> bool:
    if key in ("arm", "task") or key in point.size or key in point.values:
        return True
    try:
        found: Any = lookup(key, point.config)
    except KeyError:
        return False
    return not isinstance(found, Mapping)


class _Target(NamedTuple):
    """What a point is matched to: in words, how large it is, and the values that it shares."""

    label: str
    size: int
    same: Mapping[str, Any]


class Texts:
    """What the text of a config is, asked of the model process once for each."""

    def __init__(self, process: SizeServer) -> None:
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
            raise invalid_value(
                "data.root", data["root"], expected, "add data=local, or leave it out"
            )
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
        raise invalid_value(
            "match.same", list(match.same), expected, f"{remedy} ({unknown})"
        ) from None


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


class Planner:
    """Plans command lines. One instance shares what it composed and what it asked of texts."""

    def __init__(self, composer: Composer, process: SizeServer, *, max_runs: int) -> None:
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
            raise invalid_value(
                "seed", seed, "whole numbers of at least 0", "for example seed=0,1,2"
            )
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
