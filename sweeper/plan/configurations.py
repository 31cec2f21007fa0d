"""The configurations of an experiment: composed configs without a seed, with their sizes."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sweeper.plan.compose import Composer, RunTemplate
from sweeper.plan.experiment import Arm, Count, Experiment, Match, Pretrainings
from sweeper.plan.facts import Facts, Invalid, Size
from sweeper.plan.grid import combinations, describe_values, holds
from sweeper.plan.match import solve
from sweeper.plan.overrides import Typed, typed_path
from sweeper.plan.plan import Configuration, Matched
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.identity import leaves, lookup, run_id


class _Target(NamedTuple):
    """A size that points are matched to."""

    words: str
    size: int
    shared: Mapping[str, Any] = {}  # values that matched points share with the point of this size
    values: Mapping[str, Any] = {}  # of that point


@dataclass
class Configurations:
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
