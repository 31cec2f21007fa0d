"""Stop 2 of the road: from the overrides of a command line to the plan of its runs.

A command line names experiments, or a grid. Each arm gives configurations: composed configs without
a seed, matched where the arm asks for it, each with the size of its model. Seeds make them points
and runs. In: overrides. Out: a `Plan`, in memory only. Next: match.py, then run/schedule.py.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
from sweeper.plan.parents import check_parent, check_tokenizer
from sweeper.plan.plan import Configuration, Plan
from sweeper.plan.seeds import with_seeds
from sweeper.size_server import SizeServer
from sweeper.store import registry
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.identity import leaves
from sweeper.store.runs import RunStore, State


@dataclass
class Planner:
    """A planner of command lines; one instance reuses what it composed and asked for."""

    composer: Composer
    process: SizeServer
    max_runs: int

    def plan(self, arguments: Iterable[str]) -> Plan:
        """Plan a command line; UserError for anything that would keep a run from being trained."""
        typed = read(arguments, self.composer, max_points=self.max_runs)
        # Keys of one experiment's task may be typed, so it is composed with that experiment.
        chosen = [f"experiment={name}" for name in typed.experiments[:1]]
        template = self.composer.base([*chosen, *typed.fixed.values()])
        paths = template.beside.get("paths")
        outputs = typed_path("paths.outputs", paths["outputs"] if paths else None)
        outputs = outputs.resolve() if outputs.is_symlink() else outputs
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
            if run.parent is None:
                continue
            if run.parent in plan.runs:
                check_tokenizer(run.config, plan.runs[run.parent].config)
                continue
            parent = RunStore(outputs).run(run.parent)
            if parent.status().state is not State.DONE:
                expected = f"the id of a finished run in {outputs}"
                remedy = "train it first, or correct the id"
                raise invalid_value("parent", run.parent, expected, remedy)
            check_parent(run.config, parent.record()["config"], facts)
        facts.save()
        return plan

    def _experiments(
        self, typed: Typed, template: RunTemplate, scale: str
    ) -> dict[str, Experiment]:
        """Return the typed experiments, or the grid as an experiment, by the name of its results.

        The number of points is checked here, before any point is made.
        """
        given_name = template.beside.get("name")
        if given_name is not None:
            check_name(given_name, len(typed.experiments))
        seeds = typed.axes.get("seed")
        if seeds is None and ("seed" in typed.fixed or not typed.experiments):
            seeds = [template.run({})["seed"]]
        if seeds is not None:
            check_seeds("seed", seeds)
            if "experiment.seeds" in typed.values and typed.experiments:
                raise UserError("seed and experiment.seeds are both given; give one of them.")
        axes = {key: values for key, values in typed.axes.items() if key != "seed"}
        found = {}
        for yaml in typed.experiments:
            chosen = [f"experiment={yaml}", *typed.fixed.values()]
            own = self.composer.base(chosen)
            whole, named = own.beside.get("experiment"), own.beside["scale"]["name"]
            if named != scale:
                expected = f"{scale}, as that of experiment={typed.experiments[0]}"
                remedy = "type the experiments one by one, or type the scale"
                raise invalid_value(f"scale of {yaml}", named, expected, remedy)
            scales = self.composer.options("scale")
            self._check_arms(yaml, typed)
            shipped = read_experiment(yaml, whole, scale=scale, scales=scales, typed=typed.values)
            name = given_name or name_of(typed, shipped, self.composer)
            found[name] = replace(with_typed(shipped, axes, typed.values), name=name)
        if not found:
            if template.beside.get("experiment") is not None:
                raise UserError(NO_EXPERIMENT)
            metric = template.beside.get("metric")
            if not isinstance(metric, str):
                remedy = "for example metric=test/loss"
                raise invalid_value("metric", metric, "the name of a metric", remedy)
            name = given_name or name_of(typed, None, self.composer)
            found[name] = Experiment(
                name=name,
                title=f"{template.run({})['task']['name']}: {', '.join(axes) or 'one run'}",
                metric=metric,
                arms={"grid": Arm("grid", " x ".join(axes) or "run", grid=axes)},
                x=next(iter(axes), "params_total"),
            )
        for experiment in found.values():
            if seeds is not None:
                experiment.seeds = seeds
                if own_seeds := [arm.name for arm in experiment.arms.values() if arm.seeds]:
                    given, key = ",".join(map(str, seeds)), f"arms.{own_seeds[0]}.seeds"
                    raise UserError(
                        f"seed={given}: arm {own_seeds[0]} of the experiment has seeds of its own; "
                        f"leave seed out, and give its seeds as +experiment.{key}=[{given}]."
                    )
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

    def _check_arms(self, yaml: str, typed: Typed) -> None:
        """Raise UserError for keys of an arm that the yaml lacks, typed without a plus sign."""
        named = {key.split(".")[2]: text for key, text in typed.fixed.items()
                 if key.startswith("experiment.arms.") and text.startswith("++")}  # fmt: skip
        if not named:
            return
        whole = self.composer.base([f"experiment={yaml}"]).beside["experiment"]
        sections = (whole, *(section or {} for section in (whole.get("scales") or {}).values()))
        arms = dict.fromkeys(arm for section in sections for arm in section.get("arms") or {})
        for name, text in named.items():
            if name not in arms:
                key = text.removeprefix("++").partition("=")[0]
                remedy = f"correct the name; to add an arm, write +{key}"
                raise invalid_value(key, name, f"an arm of {yaml} ({', '.join(arms)})", remedy)


def _texts(points: Sequence[Configuration], facts: Facts) -> str:
    """Return the texts of the points in words; those of fine-tunings are not named."""
    own = [one for one in points if not (one.parent or one.config.get("parent"))] or points
    return " and ".join(dict.fromkeys(facts.text(point.config)["describe"] for point in own))


def _check_results(experiment: Experiment, points: Sequence[Configuration], facts: Facts) -> None:
    """Raise UserError for a figure, claim, metric, margin, `tune.by` or `x` it cannot have.

    Whether its points can decide a claim is another question (results/judge.py).
    """
    name = experiment.yaml or experiment.name
    registry.check(registry.FIGURES, experiment.figure, f"experiment.figure of {name}")
    for claim in experiment.claims:
        registry.check(registry.CLAIMS, claim, f"experiment.claims of {name}")
    configs = {str(point.config["task"]["name"]): point.config for point in points}
    shown: dict[str, None] = {}
    for point in points:
        task = str(point.config["task"]["name"])
        own = [point.arm.metric or experiment.metric]
        for metric in experiment.finetune.get(task, []) if experiment.finetune else own:
            shown[metric] = None
            known = facts.text(configs[task]).get("metrics", ())
            if not known or metric in known:
                continue
            expected = f"what task {task} measures ({', '.join(known)})"
            if experiment.yaml:
                key = f"finetune.{task}" if experiment.finetune else "metric"
                raise invalid_value(
                    f"experiment.{key} of {name}", metric, expected, "name one of them"
                )
            remedy = "sweep tasks one by one, or give metric=... that all of them measure"
            raise invalid_value(f"metric of task={','.join(configs)}", metric, expected, remedy)
    if tune := experiment.tune:
        for task, config in configs.items():
            measured = facts.text(config).get("metrics", ())
            known = [metric.replace("test/", SPLIT) for metric in measured]
            if known and tune.by not in known:
                expected = f"what task {task} measures ({', '.join(known)})"
                key = f"experiment.tune.by of {name}"
                raise invalid_value(key, tune.by, expected, "name one of them")
    for metric in experiment.margin:
        if metric not in shown:
            key, expected = f"experiment.margin of {name}", f"a metric shown ({', '.join(shown)})"
            raise invalid_value(key, metric, expected, "name one of them")
    key = experiment.x
    of_point = ({*point.size, *point.values, *leaves(point.config)} for point in points)
    if key not in ("arm", "task") and not any(key in known for known in of_point):
        expected = f"a key of the config, or one of {', '.join(points[0].size)}"
        raise invalid_value(f"experiment.x of {name}", key, expected, "correct it")
