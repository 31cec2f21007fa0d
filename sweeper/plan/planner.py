"""Stop 2 of the road: from the overrides of a command line to the plan of its runs.

A command line names experiments, or a grid. Each arm gives configurations: composed configs without
a seed, matched where the arm asks for it, each with the size of its model. Seeds make them points
and runs. In: overrides. Out: a `Plan`, in memory only. Next: match.py, then run/schedule.py.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sweeper.plan.compose import Composer, RunTemplate
from sweeper.plan.experiment import (
    SPLIT,
    Arm,
    Count,
    Experiment,
    Match,
    Pretrainings,
    check,
    check_seeds,
    read_experiment,
    with_typed,
)
from sweeper.plan.facts import Facts, Invalid, Size
from sweeper.plan.grid import check_size, combinations, holds
from sweeper.plan.hydra_errors import NO_EXPERIMENT
from sweeper.plan.match import solve
from sweeper.plan.overrides import Typed, check_name, name_of, read, typed_path
from sweeper.plan.plan import Configuration, Matched, Plan, PlannedPoint, PlannedRun
from sweeper.size_server import SizeServer
from sweeper.store import registry
from sweeper.store.errors import SYNONYMS, UserError, invalid_value
from sweeper.store.identity import INTRODUCED_AS, leaves, lookup, run_id
from sweeper.store.plans import describe_values
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
            name: [*_Configurations(self.composer, typed, facts, experiment).all()]
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
                _check_tokenizer(run.config, plan.runs[run.parent].config)
                continue
            parent = RunStore(outputs).run(run.parent)
            if parent.status().state is not State.DONE:
                expected = f"the id of a finished run in {outputs}"
                remedy = "train it first, or correct the id"
                raise invalid_value("parent", run.parent, expected, remedy)
            _check_parent(run.config, parent.record()["config"], facts)
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
                        f"leave seed out, and give its seeds as '+experiment.{key}=[{given}]'."
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


class _Target(NamedTuple):
    """A size that points are matched to."""

    words: str
    size: int
    shared: Mapping[str, Any] = {}  # values that matched points share with the point of this size
    values: Mapping[str, Any] = {}  # of that point


@dataclass
class _Configurations:
    """The configurations of one experiment, as a command line changes it; `done` by arm."""

    composer: Composer
    typed: Typed
    facts: Facts
    experiment: Experiment
    done: dict[str, list[Configuration]] = field(default_factory=lambda: defaultdict(list))

    def all(self) -> Iterator[Configuration]:
        """Yield every configuration with its size, each before those that are fine-tuned from it.

        Raise UserError for an invalid config, a target out of reach, or an arm without points.
        """
        experiment, arms = self.experiment, self.experiment.arms.values()
        for key, value in self._settings():
            self._refuse_name(key, value)
        # The arms that others are matched to, or start from, come first.
        for arm in sorted(arms, key=lambda arm: 2 if arm.parent else 1 if arm.match else 0):
            made = [*(self._children(arm) if arm.parent else self._combinations(arm))]
            sizes = self.facts.sizes([point.config for point in made])
            for point, size in zip(made, sizes, strict=True):
                model = dict(point.config["model"])
                # Replace null by the value it stands for: the same model is the same run.
                model["head_size"] = size.get("head_size", model["head_size"])
                config = {**point.config, "model": model}
                self.done[arm.name].append(replace(point, size=size, config=config))
        one = bool(experiment.finetune) and experiment.pretrainings is Pretrainings.one
        for arm in arms:
            if not self.done[arm.name]:
                why = f"of its grid, `where: {arm.where}` leaves none"
                if arm.match and arm.match.where:
                    why = f"no point of {arm.match.to} is one where {arm.match.where}"
                name = experiment.yaml or experiment.name
                raise UserError(f"arm {arm.name} of {name} has no points: {why}.")
            for point in self.done[arm.name]:
                yield replace(point, once=one)
                for task in experiment.finetune:
                    config = self._child_config({"task": task}, point.config)
                    config["parent"] = run_id(point.config)
                    [size] = self.facts.sizes([config])
                    yield replace(point, config=config, size=size, parent=None if one else point)

    def _settings(self) -> Iterator[tuple[str, Any]]:
        """Yield the keys and values that the command line and the arms set or sweep."""
        yield from self.typed.values.items()
        for arm in self.experiment.arms.values():
            yield from arm.set.items()
            for key, values in arm.grid.items():
                yield from ((key, value) for value in values)

    def _refuse_name(self, key: str, value: Any) -> None:
        """Raise UserError for a name that a yaml file sets: its other keys would be missing."""
        group = key.removesuffix(".name").replace(".", "/")
        option = SYNONYMS.get(str(value), value)
        if key.endswith(".name") and option in self.composer.options(group):
            expected = f"no such key, as a file in conf/{group} sets it with the keys that it needs"
            raise invalid_value(key, value, expected, f"write {group}={option}")

    def _children(self, arm: Arm) -> Iterator[Configuration]:
        """Yield the configurations of an arm that start from the runs of its parent arm."""
        assert arm.parent is not None
        typed = {*self.typed.axes, *self.typed.fixed}  # these the parents have, too
        for key in (*arm.set, *arm.swept):
            taken = key in ("task", "model/attention") or key in typed
            if self.composer.is_group(key) and not taken:
                where = f"experiment.arms.{arm.name} of {self.experiment.yaml}"
                expected = "no group but task and model/attention in an arm with a parent"
                raise invalid_value(where, key, expected, "set single keys of it instead")
            parents = {str(one.values.get(key)) for one in self.done[arm.parent]}
            if key in arm.swept and key not in typed and len(parents) > 1:
                where = f"experiment.arms.{arm.name}.grid of {self.experiment.yaml}"
                expected = f"no key that takes several values in its parent {arm.parent}"
                raise invalid_value(where, key, expected, "write an arm for each value of it")
        for parent, values in itertools.product(self.done[arm.parent], combinations(arm)):
            if self._apart(values, parent.values):
                continue
            config = self._child_config({**arm.set, **values}, parent.config)
            if holds(arm.where, config):
                yield Configuration(arm, {**parent.values, **values}, config, parent=parent)

    def _combinations(self, arm: Arm) -> Iterator[Configuration]:
        """Yield the configurations of an arm's grid, each matched to each of its targets."""
        match = arm.match
        if match is None:
            targets: list[_Target | None] = [None]
        elif isinstance(match.to, int):
            targets = [_Target(f"{match.to:,}", match.to)]
        else:
            targets = []
            for point in self.done[match.to]:
                if not holds(match.where, point.config):
                    continue
                try:
                    shared = {key: lookup(key, point.config) for key in match.same}
                except KeyError as unknown:
                    expected, same = "keys of the config", list(match.same)
                    remedy = f"correct it in the experiment ({unknown})"
                    raise invalid_value("match.same", same, expected, remedy) from None
                label = f"{match.to} {describe_values(point.values)}"
                size = self._count(match, point.size, point.config)
                targets.append(_Target(label, size, shared, point.values))
        matched_to: dict[str, str] = {}
        for values, target in itertools.product(combinations(arm), targets):
            if target and self._apart(values, target.values):
                continue
            given = {**values, **target.shared} if target else values
            template, plain = self._template({**arm.set, **given})
            point = Configuration(arm, given, self._with_data(template.run(plain)))
            if match and target and match.solve in (arm.where or ""):
                point = self._matched(point, match, target)
            if not holds(arm.where, point.config):
                continue
            if match and target and not point.matched:
                point = self._matched(point, match, target)
            if match and point.matched:
                words, to = describe_values(point.values), point.matched.to
                if (other := matched_to.setdefault(words, to)) != to:
                    expected = f"one target of each point; {words} has {other} and {to}"
                    remedy = "choose one by match.where, or add what differs to match.same"
                    raise invalid_value(f"{arm.name}.match.to", match.to, expected, remedy)
            yield point

    def _apart(self, values: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
        """Return whether two points differ in a typed key: every value of it has its own points."""
        typed = self.typed.axes.keys() & values.keys() & others.keys()
        return any(values[key] != others[key] for key in typed)

    def _count(self, match: Match, size: Size, config: Mapping[str, Any]) -> int:
        """Return the count that is matched; UserError if such a model has none."""
        if match.count in size:
            return int(size[match.count])
        model = f"{config['model']['name']} with {config['model']['attention']['name']} attention"
        expected = f"one of {', '.join(count for count in Count if count in size)}"
        remedy = "match another, or choose a decoder whose attention says what it keeps"
        raise invalid_value("match.count", f"{match.count} of {model}", expected, remedy)

    def _matched(self, point: Configuration, match: Match, target: _Target) -> Configuration:
        """Return the configuration with the key `match.solve` solved for the target size."""
        template = RunTemplate(point.config)

        def size_at(value: int) -> int | Invalid:
            [size] = self.facts.sizes_if_valid([template.run({match.solve: value})])
            return size if isinstance(size, Invalid) else self._count(match, size, point.config)

        where = f"{self.experiment.yaml}, arm {point.arm.name}"
        step: Any = match.multiple_of
        if isinstance(step, str):
            step = leaves(point.config).get(step)
        if not isinstance(step, int) or step < 1:
            expected, remedy = "a whole number of at least 1, or a key that has one", "correct it"
            raise invalid_value(f"{where}: match.multiple_of", match.multiple_of, expected, remedy)
        try:
            value, achieved = solve(size_at, target.size, step=step)
        except UserError as problem:
            reason = str(problem).removesuffix(".")
            end = "" if reason.endswith("?") else "."
            raise UserError(f"{where}: {match.solve} cannot be solved for: {reason}{end}") from None
        error = achieved / target.size - 1
        if abs(error) > match.tolerance:
            raise UserError(
                f"{where}: no {match.solve} brings {match.count} within {match.tolerance:.2%} of "
                f"{target.size:,} ({target.words}); the nearest is {match.solve}={value} with "
                f"{achieved:,} ({error:+.2%}); widen match.tolerance or choose another "
                "target."
            )
        solved = {match.solve: value}
        return replace(
            point,
            values={**point.values, **solved},
            matched=Matched(target.words, match.count.value, target.size, achieved, error),
            config=template.run(solved),
        )

    def _template(self, settings: Mapping[str, Any]) -> tuple[RunTemplate, dict[str, Any]]:
        """Return what runs with the yaml files among these settings share, and the other keys."""
        yaml = self.experiment.yaml
        groups = {k: v for k, v in settings.items() if self.composer.is_group(k)}
        chosen = [f"experiment={yaml}"] if yaml else []
        chosen += [f"{key}={value}" for key, value in groups.items()]
        own = {key: text for key, text in self.typed.fixed.items() if key not in groups}
        if "task" in groups and any(key.startswith("task.") for key in own):
            plain = self.composer.base(chosen)  # typed keys may be those of another task
            own = {k: text for k, text in own.items() if plain.has(k) or not k.startswith("task.")}
        template = self.composer.base([*chosen, *own.values()])
        return template, {k.lstrip("+"): v for k, v in settings.items() if k not in groups}

    def _child_config(
        self, settings: Mapping[str, Any], parent: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the config of a run that starts from the weights and tokenizer of another.

        On the parent's own task it is the parent's config with the settings. On another task,
        dropout is that task's own: it is no part of the weights.
        """
        task = parent["task"]["name"]
        template, plain = self._template({"task": task, **settings})
        composed = template.run({})
        other_task = composed["task"]["name"] != task
        model = dict(parent["model"])
        if other_task:
            model["dropout"] = composed["model"]["dropout"]
        if "model/attention" in settings:
            model["attention"] = composed["model"]["attention"]
        whole = {**(composed if other_task else parent), "model": model}
        config = RunTemplate(whole).run(plain)
        if other_task and "tokenizer" in config["task"]:
            config["task"]["tokenizer"] = self.facts.text(parent)["prepared"]
        return self._with_data(config)

    def _with_data(self, config: dict[str, Any]) -> dict[str, Any]:
        """Set `data.digest` to the digest of the text, and `data.root` to the folder of the task.

        A folder of local data may hold one folder per task.
        """
        data, task = config["data"], config["task"]["name"]
        if data.get("root") and data["source"] != "local":
            expected = f"no folder, since data.source={data['source']}"
            remedy = "add data=local, or leave it out"
            raise invalid_value("data.root", data["root"], expected, remedy)
        if data.get("root"):
            root = typed_path("data.root", data["root"])
            data["root"] = str(root / task if (root / task).is_dir() else root)
        data["digest"] = self.facts.text(config)["digest"]
        return config


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


def with_seeds(plan: Plan, wanted: Mapping[str, int]) -> Plan:
    """Return the plan with points and runs for the seeds of its configurations.

    `wanted`: the number of seeds, by the run of the first, where it is more than a configuration
    has of its own. A parent gets as many as its children; configurations of several arms or
    experiments that are the same runs get equally many.
    """
    points: list[PlannedPoint] = []
    runs: dict[str, PlannedRun] = {}
    for experiment in plan.experiments.values():
        found = plan.configurations[experiment.name]
        counts = [len(one.arm.seeds or experiment.seeds) for one in found]
        if wanted:
            counts = _more_seeds(found, experiment, wanted, counts)
        for one, seeds in zip(found, counts, strict=True):
            for seed in _seeds(one, experiment, seeds):
                config = _seeded_config(one, seed)
                run, task, values = run_id(config), config["task"]["name"], one.values
                about = values, run, one.matched, one.chosen, one.alternative_to
                points.append(PlannedPoint(experiment.name, one.arm.name, task, seed, *about))
                setting = describe_values(values)
                words = f"{task} {setting}" if experiment.finetune else setting
                label = f"{words} seed={seed}".strip()
                names = {"experiment": experiment.name, "arm": one.arm.name, "label": label}
                runs.setdefault(run, PlannedRun(run, config, one.size, names))
    return replace(plan, points=points, runs=runs)


def _more_seeds(
    found: Sequence[Configuration],
    experiment: Experiment,
    wanted: Mapping[str, int],
    own: Sequence[int],
) -> list[int]:
    """Return the number of seeds of each configuration; parents stand before their children."""

    def first(one: Configuration) -> str:
        return run_id(_seeded_config(one, _seeds(one, experiment, 1)[0]))

    names = [first(one) for one in found]
    counts: dict[str, int] = {}
    for name, least in zip(names, own, strict=True):
        counts[name] = max(least, wanted.get(name, 0), counts.get(name, 0))
    for one, name in zip(reversed(found), reversed(names), strict=True):
        if one.parent:
            parent = first(one.parent)
            counts[parent] = max(counts[parent], counts[name])
    return [counts[name] for name in names]


def _seeds(one: Configuration, experiment: Experiment, number: int) -> list[int]:
    """Return the first seeds of a configuration; those of trials are left out."""
    if one.once:
        return [one.config["seed"]]
    own = one.arm.seeds or experiment.seeds
    apart = [*own, *(experiment.tune.seeds if experiment.tune else ())]
    after: Iterable[int] = itertools.count(max(own) + 1)
    if one.parent:  # its runs start from those of the same seed
        after = _seeds(one.parent, experiment, number)
    further = (seed for seed in after if seed not in apart)
    return [*itertools.islice(itertools.chain(own, further), number)]


def _seeded_config(one: Configuration, seed: int) -> dict[str, Any]:
    """Return the config of one run, which starts from its parent's run of the same seed."""
    config = {**one.config, "seed": seed}
    if one.parent:
        config["parent"] = run_id(_seeded_config(one.parent, seed))
    return config


# Keys that a tokenizer depends on; the last two choose the text that it is trained on.
_TOKENIZER = ("tokenizer", "vocabulary_size", "tokenizer_lines", "joined", "documents")


def _tokenizer_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("data.digest", *(f"task.{name}" for name in _TOKENIZER))
    given = leaves({"task": config["task"], "data": config["data"]})
    return {key: given.get(key, INTRODUCED_AS.get(key)) for key in keys}


def _check_tokenizer(config: Mapping[str, Any], parent: Mapping[str, Any]) -> None:
    """Raise UserError if a run would train a tokenizer that its parent's weights do not fit."""
    same_task = config["task"]["name"] == parent["task"]["name"]
    if same_task and config["task"].get("tokenizer") is None:
        _check_equal(_tokenizer_keys(config), _tokenizer_keys(parent), config["parent"])


def _check_parent(config: Mapping[str, Any], parent: Mapping[str, Any], facts: Facts) -> None:
    """Raise UserError where the weights of a typed parent would mean something else in this run."""
    same_task = config["task"]["name"] == parent["task"]["name"]
    # An older record lacks keys that came later.
    introduced = {key: value for key, value in INTRODUCED_AS.items() if key.startswith("model.")}
    ours, theirs = (introduced | leaves({"model": one["model"]}) for one in (config, parent))
    free = ["model.dropout", "model.initializer_range"]
    if ours.get("model.attention.name") == "collaborative":  # it re-parametrises any attention
        free += [key for key in {**theirs, **ours} if key.startswith("model.attention.")]
    expected = {key: theirs.get(key) for key in {**theirs, **ours} if key not in free}
    ours |= _tokenizer_keys(config)
    if same_task:
        expected |= _tokenizer_keys(parent)
    elif "tokenizer" in config["task"]:
        expected["task.tokenizer"] = facts.text(parent)["prepared"]
    _check_equal(ours, expected, config["parent"])


def _check_equal(ours: Mapping[str, Any], expected: Mapping[str, Any], parent: str) -> None:
    for key, value in expected.items():
        if (own := ours.get(key)) != value:
            remedy = f"give it as {key}={'null' if value is None else value}"
            if key == "data.digest":
                remedy = "take the parent's text"
            raise invalid_value(key, own, f"that of parent={parent}, {value}", remedy)
