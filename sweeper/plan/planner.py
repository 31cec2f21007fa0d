"""Stop 2 of the road: from the overrides of a command line to the plan of its runs.

A command line names experiments, or gives a grid, which becomes an experiment with one arm.
configurations.py composes the configs of every arm, matches sizes where the arm asks for it
(match.py), and asks for the size of each model. seeds.py makes points and runs of them, and
parents.py checks the runs that start from another run.

In: overrides. Out: a `Plan`, in memory only. Next: configurations.py and match.py, then
run/schedule.py.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweeper.plan.compose import Composer, RunTemplate
from sweeper.plan.configurations import Configurations
from sweeper.plan.experiment import (
    SPLIT,
    Arm,
    Experiment,
    check,
    check_seeds,
    read_experiment,
    with_typed,
)
from sweeper.plan.facts import Facts
from sweeper.plan.grid import check_size
from sweeper.plan.hydra_errors import NO_EXPERIMENT
from sweeper.plan.overrides import Typed, check_name, name_of, read, typed_path
from sweeper.plan.parents import check_start
from sweeper.plan.plan import Configuration, Plan
from sweeper.plan.seeds import with_seeds
from sweeper.size_server import SizeServer
from sweeper.store import registry
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.identity import leaves


@dataclass
class Planner:
    """A planner of command lines. It keeps composed configs and sizes for the next command line."""

    composer: Composer
    process: SizeServer
    max_runs: int

    def plan(self, arguments: Iterable[str]) -> Plan:
        """Return the plan of a command line. Raise UserError if one of its runs could not train."""
        typed = read(arguments, self.composer, max_points=self.max_runs)
        # A typed key may exist only in the task of an experiment, so compose with the first one.
        chosen = [f"experiment={name}" for name in typed.experiments[:1]]
        template = self.composer.base([*chosen, *typed.fixed.values()])
        outputs = _outputs_folder(template)
        scale = str(template.beside["scale"]["name"])
        experiments = self._experiments(typed, template, scale)

        facts = Facts(self.process, outputs / "cache" / "facts.json")
        found = {
            name: [*Configurations(self.composer, typed, facts, experiment).all()]
            for name, experiment in experiments.items()
        }
        texts = {name: _texts(of, facts) for name, of in found.items()}
        for name, experiment in experiments.items():
            _check_results(experiment, found[name], facts)

        plan = with_seeds(Plan(scale, outputs, experiments, texts, found), {})
        for run in plan.runs.values():
            check_start(run, plan, facts)
        facts.save()
        return plan

    def _experiments(
        self, typed: Typed, template: RunTemplate, scale: str
    ) -> dict[str, Experiment]:
        """Return the experiments of a command line by the name of their results.

        Raise UserError for more than `max_runs` points, before any of them is composed.
        """
        given_name = template.beside.get("name")
        if given_name is not None:
            check_name(given_name, len(typed.experiments))
        seeds = _typed_seeds(typed, template)
        axes = {key: values for key, values in typed.axes.items() if key != "seed"}

        found = {}
        for yaml in typed.experiments:
            shipped = self._shipped(yaml, typed, scale)
            name = given_name or name_of(typed, shipped, self.composer)
            found[name] = replace(with_typed(shipped, axes, typed.values), name=name)
        if not typed.experiments:
            grid = _grid(template, axes)
            name = given_name or name_of(typed, None, self.composer)
            found[name] = replace(grid, name=name)

        for experiment in found.values():
            if seeds is not None:
                _set_seeds(experiment, seeds)
            check(experiment)
            experiment.seeds = list(dict.fromkeys(experiment.seeds))
            for arm in experiment.arms.values():
                arm.seeds = list(dict.fromkeys(arm.seeds))
        points = sum(
            len(experiment.seeds) * math.prod(map(len, arm.grid.values()))
            for experiment in found.values()
            for arm in experiment.arms.values()
        )
        check_size(points, self.max_runs, "the sweep")
        return found

    def _shipped(self, yaml: str, typed: Typed, scale: str) -> Experiment:
        """Return an experiment of conf/experiment, with the typed keys of its own section."""
        own = self.composer.base([f"experiment={yaml}", *typed.fixed.values()])
        own_scale = own.beside["scale"]["name"]
        if own_scale != scale:
            expected = f"{scale}, the scale of experiment={typed.experiments[0]}"
            remedy = f"sweep one experiment at a time, or give scale={scale}"
            raise invalid_value(f"scale of {yaml}", own_scale, expected, remedy)
        self._check_arms(yaml, typed)
        return read_experiment(
            yaml,
            own.beside.get("experiment"),
            scale=scale,
            scales=self.composer.options("scale"),
            typed=typed.values,
        )

    def _check_arms(self, yaml: str, typed: Typed) -> None:
        """Raise UserError for a typed key of an arm that the yaml lacks.

        Only a key typed with a plus sign adds an arm. The sweep writes `++` before the others.
        """
        named = {key.split(".")[2]: text for key, text in typed.fixed.items()
                 if key.startswith("experiment.arms.") and text.startswith("++")}  # fmt: skip
        if not named:
            return
        whole = self.composer.base([f"experiment={yaml}"]).beside["experiment"]
        sections = (
            whole,
            *(section or {} for section in (whole.get("scales") or {}).values()),
        )
        arms = dict.fromkeys(
            arm for section in sections for arm in section.get("arms") or {}
        )
        for name, text in named.items():
            if name not in arms:
                key = text.removeprefix("++").partition("=")[0]
                remedy = f"correct the name; to add an arm, write +{key}"
                raise invalid_value(
                    key, name, f"an arm of {yaml} ({', '.join(arms)})", remedy
                )


def _outputs_folder(template: RunTemplate) -> Path:
    paths = template.beside.get("paths")
    outputs = typed_path("paths.outputs", paths["outputs"] if paths else None)
    return outputs.resolve() if outputs.is_symlink() else outputs


def _typed_seeds(typed: Typed, template: RunTemplate) -> list[Any] | None:
    """Return the seeds of the command line. None leaves those of the experiments."""
    seeds = typed.axes.get("seed")
    if seeds is None and ("seed" in typed.fixed or not typed.experiments):
        seeds = [template.run({})["seed"]]
    if seeds is not None:
        check_seeds("seed", seeds)
        if "experiment.seeds" in typed.values and typed.experiments:
            raise UserError(
                "seed and experiment.seeds are both given; give one of them."
            )
    return seeds


def _set_seeds(experiment: Experiment, seeds: list[Any]) -> None:
    """Set the typed seeds. Raise UserError if an arm has seeds of its own, which override them."""
    experiment.seeds = seeds
    if own_seeds := [arm.name for arm in experiment.arms.values() if arm.seeds]:
        given, key = ",".join(map(str, seeds)), f"arms.{own_seeds[0]}.seeds"
        raise UserError(
            f"seed={given}: arm {own_seeds[0]} of the experiment has seeds of its own; "
            f"leave seed out, and give its seeds as '+experiment.{key}=[{given}]'."
        )


def _grid(template: RunTemplate, axes: Mapping[str, list[Any]]) -> Experiment:
    """Return a typed grid as an experiment with one arm. Its name is still empty."""
    if template.beside.get("experiment") is not None:
        raise UserError(NO_EXPERIMENT)
    metric = template.beside.get("metric")
    if not isinstance(metric, str):
        remedy = "for example metric=test/loss"
        raise invalid_value("metric", metric, "the name of a metric", remedy)
    return Experiment(
        name="",
        title=f"{template.run({})['task']['name']}: {', '.join(axes) or 'one run'}",
        metric=metric,
        arms={"grid": Arm("grid", " x ".join(axes) or "run", grid=dict(axes))},
        x=next(iter(axes), "params_total"),
    )


def _texts(points: Sequence[Configuration], facts: Facts) -> str:
    """Describe the texts that the points train on, leaving out those of fine-tunings.

    If every point is a fine-tuning, describe all texts.
    """
    own = [
        one for one in points if not (one.parent or one.config.get("parent"))
    ] or points
    return " and ".join(
        dict.fromkeys(facts.text(point.config)["describe"] for point in own)
    )


def _check_results(
    experiment: Experiment, points: Sequence[Configuration], facts: Facts
) -> None:
    """Raise UserError for a figure, claim, metric, margin, `tune.by` or `x` that does not exist.

    results/judge.py checks whether the points can decide a claim.
    """
    name = experiment.yaml or experiment.name
    registry.check(registry.FIGURES, experiment.figure, f"experiment.figure of {name}")
    for claim in experiment.claims:
        registry.check(registry.CLAIMS, claim, f"experiment.claims of {name}")

    of_task = {str(point.config["task"]["name"]): point.config for point in points}
    measured = {
        task: facts.text(config).get("metrics", ()) for task, config in of_task.items()
    }
    shown = dict.fromkeys(
        metric
        for point in points
        for metric in _check_metrics(experiment, point, measured)
    )
    if experiment.tune:
        _check_tuned_metric(name, experiment.tune.by, measured)
    for metric in experiment.margin:
        if metric not in shown:
            key = f"experiment.margin of {name}"
            expected = f"a metric of the experiment ({', '.join(shown)})"
            raise invalid_value(key, metric, expected, "name one of them")

    key = experiment.x
    of_point = ({*point.size, *point.values, *leaves(point.config)} for point in points)
    if key not in ("arm", "task") and not any(key in known for known in of_point):
        expected = f"a key of the config, or one of {', '.join(points[0].size)}"
        raise invalid_value(f"experiment.x of {name}", key, expected, "correct it")


def _check_metrics(
    experiment: Experiment, point: Configuration, measured: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the metrics shown of a point. Raise UserError if its task does not measure one.

    `measured`: the metrics of each task; none if the task does not say.
    """
    name = experiment.yaml or experiment.name
    task = str(point.config["task"]["name"])
    shown = [point.arm.metric or experiment.metric]
    if experiment.finetune:
        shown = experiment.finetune.get(task, [])
    known = measured[task]
    for metric in shown:
        if not known or metric in known:
            continue
        expected = f"a metric of task {task} ({', '.join(known)})"
        if experiment.yaml:
            key = f"finetune.{task}" if experiment.finetune else "metric"
            raise invalid_value(
                f"experiment.{key} of {name}", metric, expected, "name one of them"
            )
        remedy = "sweep one task at a time, or give a metric that all tasks measure"
        raise invalid_value(
            f"metric of task={','.join(measured)}", metric, expected, remedy
        )
    return shown


def _check_tuned_metric(
    name: str, by: str, measured: Mapping[str, Sequence[str]]
) -> None:
    """Raise UserError if a task does not measure the metric that tuning decides by."""
    for task, metrics in measured.items():
        known = [metric.replace("test/", SPLIT) for metric in metrics]
        if known and by not in known:
            expected = f"a metric of task {task} ({', '.join(known)})"
            raise invalid_value(
                f"experiment.tune.by of {name}", by, expected, "name one of them"
            )
