"""Turn the overrides of a command line into a plan of runs.

A command line names experiments, or sweeps a grid, which becomes an experiment with one arm.
configurations.py composes the configs of every arm, gives matched models their target sizes
(match.py), and asks the size server for the size of each model. From these, seeds.py makes points
and runs. parents.py checks the runs that start from another run.

A `Plan` is an object in memory. sweeper/store/plans.py writes it to disk.

This file is stop 2 of the road through the code in CONTRIBUTING.md. Read configurations.py and
match.py next, and then run/schedule.py.
"""

import math
import re
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
)
from sweeper.plan.facts import Facts
from sweeper.plan.overlay import with_command_line
from sweeper.plan.overrides import CommandLine, absolute_path, check_name, name_of, read
from sweeper.plan.parents import Parents, check_start
from sweeper.plan.plan import Configuration, Plan
from sweeper.plan.seeds import with_seeds
from sweeper.size_server import SizeServer
from sweeper.store import registry
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.identity import leaves
from sweeper.store.plans import describe_values
from sweeper.store.runs import RunStore

# A reference of OmegaConf to another key, such as ${model.heads}.
_REFERENCE = re.compile(r"\$\{\s*([^}\s]*)\s*\}")


@dataclass
class Planner:
    """A planner that turns command lines into plans of at most `max_runs` points."""

    composer: Composer
    process: SizeServer
    max_runs: int

    def plan(self, arguments: Iterable[str]) -> Plan:
        """Return the plan of a command line. Raise UserError if one of its runs could not train."""
        command_line = read(arguments, self.composer, max_points=self.max_runs)
        # Overrides may set keys of the experiment's task. So compose with the first experiment.
        chosen = [f"experiment={name}" for name in command_line.experiments[:1]]
        template = self.composer.base([*chosen, *command_line.fixed.values()])
        outputs = _outputs_folder(template)
        scale = str(template.resolved["scale"]["name"])
        experiments = self._experiments(command_line, template, scale)

        facts = Facts(self.process, outputs / "cache" / "facts.json")
        parents = Parents(RunStore(outputs), self.process)
        tools = (self.composer, command_line, facts, parents)
        found = {
            name: [*Configurations(*tools, experiment).all()]
            for name, experiment in experiments.items()
        }
        texts = {name: _texts(of, facts) for name, of in found.items()}
        for name, experiment in experiments.items():
            _check_results(experiment, found[name], facts)

        sentences = [
            _replaced(point, command_line, self.composer)
            for points in found.values()
            for point in points
        ]
        notes = [*dict.fromkeys(filter(None, sentences))]
        unseeded = Plan(scale, outputs, experiments, texts, found, notes=notes)
        plan = with_seeds(unseeded, {})
        for run in plan.runs.values():
            check_start(run, plan, facts)
        facts.save()
        return plan

    def _experiments(
        self, command_line: CommandLine, template: RunTemplate, scale: str
    ) -> dict[str, Experiment]:
        """Return the experiments of a command line, keyed by the name of their results.

        Raise UserError if an experiment is invalid, or if all of them together have more than
        `max_runs` points.
        """
        given_name = template.resolved.get("name")
        if given_name is not None:
            check_name(given_name, len(command_line.experiments))
        seeds = _seeds_given(command_line, template)
        axes = {
            key: values for key, values in command_line.axes.items() if key != "seed"
        }

        found = {}
        for yaml in command_line.experiments:
            shipped = self._shipped(yaml, command_line, scale)
            name = given_name or name_of(command_line, shipped, self.composer)
            made = with_command_line(shipped, axes, command_line.values)
            if made.finetune and "parent" in command_line.keys:
                # All points fine-tune one model, so claims about sizes have nothing to compare.
                # Keep only the claims of the command line.
                made.claims = command_line.values.get("experiment.claims", [])
            found[name] = replace(made, name=name)
        if not command_line.experiments:
            grid = _grid(template, command_line, axes)
            name = given_name or name_of(command_line, None, self.composer)
            found[name] = replace(grid, name=name)

        for experiment in found.values():
            if seeds is not None:
                experiment.seeds = seeds
            check(experiment)
            _check_interpolations(experiment, template)
            experiment.seeds = list(dict.fromkeys(experiment.seeds))
        self._check_points(found)
        return found

    def _check_points(self, experiments: Mapping[str, Experiment]) -> None:
        """Raise UserError if the experiments have more than `max_runs` points."""
        points = sum(
            len(experiment.seeds) * math.prod(map(len, arm.grid.values()))
            for experiment in experiments.values()
            for arm in experiment.arms.values()
        )
        if points > self.max_runs:
            # "At least", because `read` stops after max_runs + 1 values of a key.
            raise UserError(
                f"the sweep has at least {points:,} points, more than "
                f"hydra.sweeper.max_runs={self.max_runs:,}; sweep fewer values or raise "
                "hydra.sweeper.max_runs."
            )

    def _shipped(self, yaml: str, command_line: CommandLine, scale: str) -> Experiment:
        """Return the experiment of conf/experiment/<yaml>.yaml with overrides `experiment.*`.

        Raise UserError if it is invalid, or if its yaml chooses another scale than `scale`.
        """
        own = self.composer.base([f"experiment={yaml}", *command_line.fixed.values()])
        own_scale = own.resolved["scale"]["name"]
        if own_scale != scale:
            first = command_line.experiments[0]
            raise UserError(
                f"experiment={first} has scale={scale}, but experiment={yaml} has "
                f"scale={own_scale}; sweep one of them at a time, or set scale={scale}."
            )
        return read_experiment(
            yaml,
            own.experiment,
            scale=scale,
            overrides=command_line.values,
            added=command_line.added,
        )


def _outputs_folder(template: RunTemplate) -> Path:
    paths = template.resolved.get("paths")
    outputs = absolute_path("paths.outputs", paths["outputs"] if paths else None)
    return outputs.resolve() if outputs.is_symlink() else outputs


def _seeds_given(command_line: CommandLine, template: RunTemplate) -> list[Any] | None:
    """Return the seeds of the command line, or None to keep the seeds of the experiments."""
    seeds = command_line.axes.get("seed")
    if seeds is None and ("seed" in command_line.fixed or not command_line.experiments):
        seeds = [template.run({})["seed"]]
    if seeds is not None:
        check_seeds(seeds)
        if "experiment.seeds" in command_line.values and command_line.experiments:
            raise UserError(
                "seed and experiment.seeds are both set; set only one of them."
            )
    return seeds


def _grid(
    template: RunTemplate, command_line: CommandLine, axes: Mapping[str, list[Any]]
) -> Experiment:
    """Return the grid of a command line as an experiment with one arm and an empty name."""
    of_experiment = [
        key for key in command_line.values if key.startswith("experiment.")
    ]
    if of_experiment or template.experiment is not None:
        raise UserError(
            "Keys such as experiment.seeds can be set only if an experiment is chosen; "
            "add experiment=NAME, as in experiment=fig1."
        )
    metric = template.resolved.get("metric")
    if not isinstance(metric, str):
        remedy = "write for example metric=test/loss"
        raise invalid_value("metric", metric, "the name of a metric", remedy)
    return Experiment(
        name="",
        title=f"{template.run({})['task']['name']}: {', '.join(axes) or 'one run'}",
        metric=metric,
        arms={"grid": Arm("grid", " x ".join(axes) or "run", grid=dict(axes))},
        x=next(iter(axes), "params_total"),
    )


def _check_interpolations(experiment: Experiment, template: RunTemplate) -> None:
    """Raise UserError if a value refers to a key that has no final value yet, as in `${seed}`.

    The seed, the tuned keys and the key `match.solve` get their values after interpolations are
    resolved.
    """
    tuned = experiment.tune.grid if experiment.tune else {}
    for arm in experiment.arms.values():
        later = {"seed", *tuned, *([arm.match.solve] if arm.match else [])}
        for key, value in {**template.interpolations, **arm.set}.items():
            for name in _REFERENCE.findall(str(value)):
                if not all(map(str.isidentifier, name.split("."))):
                    expected = "a reference to a complete key, as in ${model.heads}"
                    raise invalid_value(key, value, expected, "write the complete key")
                # A reference to a section, such as ${optimizer}, also copies the keys in it.
                if any(f"{one}.".startswith(f"{name}.") for one in later):
                    expected = (
                        f"no reference to {name}, whose value differs between runs"
                    )
                    raise invalid_value(key, value, expected, "write a fixed value")


def _texts(points: Sequence[Configuration], facts: Facts) -> str:
    """Return a one-line description of the training texts of an experiment.

    Leave out the texts of points that start from other runs, unless all points do.
    """
    own = [
        one for one in points if not (one.parent or one.config.get("parent"))
    ] or points
    words = (facts.text(point.config)["describe"] for point in own)
    return " and ".join(dict.fromkeys(words))


def _replaced(
    point: Configuration, command_line: CommandLine, composer: Composer
) -> str:
    """Return a note for the user if the task or the scale overrides the chosen optimizer, else "".

    Hydra composes the task and the scale after the optimizer, so both may set its keys to other
    values.
    """
    settings = {**command_line.values, **point.arm.set, **point.values}
    option = settings.get("optimizer")
    if option is None or point.config.get("parent"):
        return (
            ""  # the task of a run with a parent has its own settings of the optimizer
        )
    config = leaves(point.config)
    instead = {
        key: config.get(key)
        for key, value in composer.listed("optimizer", str(option)).items()
        if key not in settings and config.get(key) != value
    }
    if not instead:
        return ""
    return (
        f"The task and the scale replace values of optimizer={option} by "
        f"{describe_values(instead)}; to keep a value, set its key on the command line."
    )


def _check_results(
    experiment: Experiment, points: Sequence[Configuration], facts: Facts
) -> None:
    """Raise UserError if the figure, a claim, a metric or the x-axis of an experiment is unknown.

    This function does not check whether the points can decide a claim (results/judge.py does).
    """
    registry.check(registry.FIGURES, experiment.figure, f"{experiment.section}.figure")
    for claim in experiment.claims:
        registry.check(registry.CLAIMS, claim, f"{experiment.section}.claims")
    _check_metrics(experiment, points, facts)

    key = experiment.x
    of_point = ({*point.size, *point.values, *leaves(point.config)} for point in points)
    of_table = ("arm", "task", "training_flops", "seconds")
    if key not in of_table and not any(key in known for known in of_point):
        names = ", ".join([*of_table, *points[0].size])
        expected = f"a key of the config, or one of {names}"
        raise invalid_value(f"{experiment.section}.x", key, expected, "correct it")


def _check_metrics(
    experiment: Experiment, points: Sequence[Configuration], facts: Facts
) -> None:
    """Raise UserError if an experiment names a metric that its tasks do not measure.

    A task that does not list its metrics may measure any metric.
    """
    section = f"{experiment.section}." if experiment.yaml else ""
    of_task: dict[str, Configuration] = {}
    shown: set[tuple[str, str]] = set()
    for point in points:
        task = str(point.config["task"]["name"])
        of_task[task] = point
        metrics = [point.arm.metric or experiment.metric]
        if experiment.finetune:
            metrics = experiment.finetune.get(task, [])
        shown |= {(task, metric) for metric in metrics}

    for task, point in of_task.items():
        measured = facts.text(point.config).get("metrics", ())
        key = f"finetune.{task}" if experiment.finetune else "metric"
        named = [(key, metric, measured) for of, metric in shown if of == task]
        if experiment.tune:
            validated = [one.replace("test/", SPLIT) for one in measured]
            named.append(("tune.by", experiment.tune.by, validated))
        for key, metric, known in named:
            if known and metric not in known:
                expected = f"a metric of task {task} ({', '.join(known)})"
                raise invalid_value(
                    f"{section}{key}", metric, expected, "name one of them"
                )
    known = {metric for _, metric in shown}
    for metric in experiment.margin:
        if metric not in known:
            expected = f"a metric of the experiment ({', '.join(sorted(known))})"
            raise invalid_value(
                f"{section}margin", metric, expected, "name one of them"
            )
