"""The configurations of an experiment: composed configs without a seed, with their sizes.

An arm composes the combinations of its grid. A matched arm solves one key of each combination for
a target size. An arm with a parent, and every fine-tuning, changes keys of its parent's config.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sweeper.plan.compose import Composer, RunTemplate
from sweeper.plan.experiment import Arm, Count, Experiment, Match, Pretrainings
from sweeper.plan.facts import Facts, Invalid, Size
from sweeper.plan.grid import combinations, holds
from sweeper.plan.match import solve
from sweeper.plan.overrides import Typed, typed_path
from sweeper.plan.plan import Configuration, Matched
from sweeper.store.errors import SYNONYMS, UserError, invalid_value
from sweeper.store.identity import leaves, lookup, run_id
from sweeper.store.plans import describe_values


class _Target(NamedTuple):
    """A size to match, and the point that has it if `match.to` names an arm."""

    words: str
    size: int
    shared: Mapping[str, Any] = {}  # the values of the keys in `match.same`
    values: Mapping[str, Any] = {}  # all values of the point


@dataclass
class Configurations:
    """The configurations of one experiment, changed by the keys of a command line."""

    composer: Composer
    typed: Typed
    facts: Facts
    experiment: Experiment
    done: dict[str, list[Configuration]] = field(
        default_factory=lambda: defaultdict(list)
    )  # by arm

    def all(self) -> Iterator[Configuration]:
        """Yield every configuration with its size; a pre-training precedes its fine-tunings.

        Raise UserError for an invalid config, for a target size that no value reaches, and for an
        arm without points.
        """
        experiment, arms = self.experiment, self.experiment.arms.values()
        for key, value in self._settings():
            self._refuse_name(key, value)
        # Arms are matched to arms that are not matched, and their children come last.
        for arm in sorted(
            arms, key=lambda arm: 2 if arm.parent else 1 if arm.match else 0
        ):
            made = [*(self._children(arm) if arm.parent else self._combinations(arm))]
            self.done[arm.name] += self._with_sizes(made)

        one = bool(experiment.finetune) and experiment.pretrainings is Pretrainings.one
        for arm in arms:
            if not self.done[arm.name]:
                why = f"`where: {arm.where}` is false at every point of its grid"
                if (match := arm.match) and match.where:
                    why = f"`match.where: {match.where}` is false at every point of {match.to}"
                name = experiment.yaml or experiment.name
                raise UserError(f"arm {arm.name} of {name} has no points: {why}.")
            for point in self.done[arm.name]:
                yield replace(point, once=one)
                for task in experiment.finetune:
                    config = self._child_config({"task": task}, point.config)
                    config["parent"] = run_id(point.config)
                    [size] = self.facts.sizes([config])
                    yield replace(
                        point, config=config, size=size, parent=None if one else point
                    )

    def _settings(self) -> Iterator[tuple[str, Any]]:
        """Yield the keys and values that the command line and the arms set or sweep."""
        yield from self.typed.values.items()
        for arm in self.experiment.arms.values():
            yield from arm.set.items()
            for key, values in arm.grid.items():
                yield from ((key, value) for value in values)

    def _refuse_name(self, key: str, value: Any) -> None:
        """Raise UserError for the key `name` of a section, if a yaml file has this name.

        The file must be chosen instead: it sets the other keys that belong to the name.
        """
        group = key.removesuffix(".name").replace(".", "/")
        option = SYNONYMS.get(str(value), value)
        if key.endswith(".name") and option in self.composer.options(group):
            expected = f"no such key, as a file in conf/{group} sets it with the keys that it needs"
            raise invalid_value(key, value, expected, f"write {group}={option}")

    def _with_sizes(self, points: Sequence[Configuration]) -> Iterator[Configuration]:
        """Yield the points with their sizes, and with the head size where the config has null.

        So a config with null and a config with this head size become the same run.
        """
        sizes = self.facts.sizes([point.config for point in points])
        for point, size in zip(points, sizes, strict=True):
            model = dict(point.config["model"])
            model["head_size"] = size.get("head_size", model["head_size"])
            yield replace(point, size=size, config={**point.config, "model": model})

    def _children(self, arm: Arm) -> Iterator[Configuration]:
        """Yield the configurations of an arm whose runs start from those of its parent arm."""
        assert arm.parent is not None
        self._check_child_keys(arm)
        for parent, values in itertools.product(
            self.done[arm.parent], combinations(arm)
        ):
            if self._differ_in_typed(values, parent.values):
                continue
            config = self._child_config({**arm.set, **values}, parent.config)
            if holds(arm.where, config):
                yield Configuration(
                    arm, {**parent.values, **values}, config, parent=parent
                )

    def _check_child_keys(self, arm: Arm) -> None:
        """Raise UserError for keys that an arm with a parent cannot set or sweep."""
        assert arm.parent is not None
        typed = {
            *self.typed.axes,
            *self.typed.fixed,
        }  # typed keys hold for the parents, too
        for key in (*arm.set, *arm.swept):
            allowed = key in ("task", "model/attention") or key in typed
            if self.composer.is_group(key) and not allowed:
                where = f"experiment.arms.{arm.name} of {self.experiment.yaml}"
                expected = (
                    "no group but task and model/attention in an arm with a parent"
                )
                raise invalid_value(
                    where, key, expected, "set single keys of it instead"
                )
            parents = {str(one.values.get(key)) for one in self.done[arm.parent]}
            if key in arm.swept and key not in typed and len(parents) > 1:
                where = f"experiment.arms.{arm.name}.grid of {self.experiment.yaml}"
                expected = (
                    f"no key that takes several values in its parent {arm.parent}"
                )
                raise invalid_value(
                    where, key, expected, "write an arm for each value of it"
                )

    def _combinations(self, arm: Arm) -> Iterator[Configuration]:
        """Yield a configuration for each combination of an arm's values.

        A matched arm yields one for each combination and target, with the solved key.
        """
        match = arm.match
        if match is None:
            for values in combinations(arm):
                point = self._composed(arm, values)
                if holds(arm.where, point.config):
                    yield point
            return

        target_of: dict[str, str] = {}  # by the values of the point
        for values, target in itertools.product(
            combinations(arm), self._targets(match)
        ):
            if self._differ_in_typed(values, target.values):
                continue
            point = self._composed(arm, {**values, **target.shared})
            # Solve first only where the condition needs the solution, since solving builds models.
            if match.solve in (arm.where or ""):
                point = self._matched(point, match, target)
            if not holds(arm.where, point.config):
                continue
            if not point.matched:
                point = self._matched(point, match, target)

            words = describe_values(point.values)
            if (other := target_of.setdefault(words, target.words)) != target.words:
                both = f"{other} and {target.words}"
                expected = f"one target per point, but {words} is matched to {both}"
                remedy = "choose one by match.where, or add what differs to match.same"
                raise invalid_value(f"{arm.name}.match.to", match.to, expected, remedy)
            yield point

    def _targets(self, match: Match) -> list[_Target]:
        """Return the sizes to match: a number, or the size of each point of another arm."""
        if isinstance(match.to, int):
            return [_Target(f"{match.to:,}", match.to)]
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
        return targets

    def _differ_in_typed(
        self, values: Mapping[str, Any], others: Mapping[str, Any]
    ) -> bool:
        """Return whether two points have different values of a key with several typed values.

        Such points are neither matched to each other nor parent and child.
        """
        typed = self.typed.axes.keys() & values.keys() & others.keys()
        return any(values[key] != others[key] for key in typed)

    def _count(self, match: Match, size: Size, config: Mapping[str, Any]) -> int:
        """Return the count `match.count` of a model. Raise UserError if the model has none."""
        if match.count in size:
            return int(size[match.count])
        model = config["model"]["name"]
        if attention := config["model"].get("attention"):
            model += f" with {attention['name']} attention"
        expected = f"one of {', '.join(count for count in Count if count in size)}"
        remedy = "match another count, or choose a decoder whose attention has `cached_numbers`"
        raise invalid_value(
            "match.count", f"{match.count} of {model}", expected, remedy
        )

    def _matched(
        self, point: Configuration, match: Match, target: _Target
    ) -> Configuration:
        """Solve the key `match.solve` for the target size, and return the point with the solution.

        Raise UserError if the nearest size is further away than `match.tolerance`.
        """
        template = RunTemplate(point.config)

        def size_at(value: int) -> int | Invalid:
            [size] = self.facts.sizes_if_valid([template.run({match.solve: value})])
            return (
                size
                if isinstance(size, Invalid)
                else self._count(match, size, point.config)
            )

        where = f"{self.experiment.yaml}, arm {point.arm.name}"
        step = self._step(where, match, point.config)
        try:
            value, achieved = solve(size_at, target.size, step=step)
        except UserError as problem:
            reason = str(problem).removesuffix(".")
            end = "" if reason.endswith("?") else "."
            raise UserError(
                f"{where}: {match.solve} cannot be solved for: {reason}{end}"
            ) from None
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
            matched=Matched(
                target.words, match.count.value, target.size, achieved, error
            ),
            config=template.run(solved),
        )

    def _step(self, where: str, match: Match, config: Mapping[str, Any]) -> int:
        """Return the number that the solution is a multiple of."""
        step: Any = match.multiple_of
        if isinstance(step, str):
            step = leaves(config).get(step)
        if not isinstance(step, int) or step < 1:
            expected = "a whole number of at least 1, or a key with such a value"
            key = f"{where}: match.multiple_of"
            raise invalid_value(key, match.multiple_of, expected, "correct it")
        return step

    def _composed(self, arm: Arm, values: Mapping[str, Any]) -> Configuration:
        """Compose the config of a point of an arm without a parent."""
        template, plain = self._template({**arm.set, **values})
        return Configuration(arm, values, self._with_data(template.run(plain)))

    def _template(
        self, settings: Mapping[str, Any]
    ) -> tuple[RunTemplate, dict[str, Any]]:
        """Split settings into chosen yaml files and plain keys.

        Return the template composed with these yaml files and the typed keys, and the plain keys.
        """
        yaml = self.experiment.yaml
        groups = {k: v for k, v in settings.items() if self.composer.is_group(k)}
        chosen = [f"experiment={yaml}"] if yaml else []
        chosen += [f"{key}={value}" for key, value in groups.items()]
        own = {key: text for key, text in self.typed.fixed.items() if key not in groups}
        base = self.composer.base
        if "task" in groups and any(key.startswith("task.") for key in own):
            # Leave out typed keys that only another task of the sweep has.
            plain = base(chosen)
            own = {
                k: text
                for k, text in own.items()
                if plain.has(k) or not k.startswith("task.")
            }
        models = [base([f"model={name}"]) for name in self.typed.axes.get("model", ())]
        if "model" in groups and models:  # here, too
            own = {
                k: text
                for k, text in own.items()
                if base(chosen).has(k) or not any(model.has(k) for model in models)
            }
        template = self.composer.base([*chosen, *own.values()])
        return template, {
            k.lstrip("+"): v for k, v in settings.items() if k not in groups
        }

    def _child_config(
        self, settings: Mapping[str, Any], parent: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the config of a run that starts from the weights and tokenizer of `parent`.

        On the parent's task, it is the parent's config changed by `settings`. On another task, it
        is the config of that task with the parent's model; dropout, which has no weights, is the
        other task's.
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
        """Set `data.digest` to the digest of the text, and make `data.root` an absolute path.

        If the folder `data.root` has a subfolder with the task's name, set `data.root` to that.
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
