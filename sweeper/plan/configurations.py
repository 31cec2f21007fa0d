"""Make the configurations of an experiment.

A configuration is the config of a point, without a seed, together with the size of its model. An
arm has one configuration for each combination of the values in its grid. In a matched arm, the
planner also computes the value of one key, such that the model has a target size. A fine-tuning, or
a point of an arm with a parent, gets the config of its parent with some keys changed.
"""

import copy
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from sweeper.plan.compose import Composer, RunTemplate, set_value
from sweeper.plan.experiment import Arm, Count, Experiment, Match, Pretrainings
from sweeper.plan.facts import Facts, Invalid, Size
from sweeper.plan.grid import combinations, holds
from sweeper.plan.match import solve
from sweeper.plan.overrides import CommandLine, absolute_path
from sweeper.plan.parents import Parents, tokenizer_of
from sweeper.plan.plan import Configuration, Matched
from sweeper.plan.seeds import seeded_config
from sweeper.store.errors import SYNONYMS, UserError, invalid_value
from sweeper.store.identity import leaves, lookup, run_id
from sweeper.store.plans import describe_values

# Maps a key to the only value of data.source for which the key is read.
READ_BY = {
    "data.sentences": "sample",
    "data.competitors": "sample",
    "data.directions": "sample",
    "data.root": "local",
    "data.hub.path": "hub",
    "data.hub.name": "hub",
    "data.hub.revision": "hub",
}


class _Target(NamedTuple):
    """A size to reach: the number `match.to`, or the size of a point of the arm `match.to`."""

    label: str  # describes the target in messages
    size: int
    # If the target is a point, the values that a matched point copies from it (`match.same`).
    shared: Mapping[str, Any] = {}
    # If the target is a point, all values of this point.
    values: Mapping[str, Any] = {}


@dataclass
class Configurations:
    """A factory of the configurations of one experiment. Its method `all` makes them."""

    composer: Composer
    command_line: CommandLine
    facts: Facts
    parents: Parents
    experiment: Experiment
    # The configurations made so far, keyed by the name of the arm.
    done: dict[str, list[Configuration]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def all(self) -> Iterator[Configuration]:
        """Yield all configurations of the experiment. A pre-training precedes its fine-tunings.

        Raise UserError for an invalid config, an unreachable target size, or an arm without points.
        """
        experiment, arms = self.experiment, self.experiment.arms.values()
        self._refuse_names()

        if experiment.finetune and "parent" in self.command_line.keys:
            yield from self._fine_tunings()
            return

        def stage(arm: Arm) -> int:
            """Return a sort key: unmatched arms come first, and arms with a parent come last."""
            return 2 if arm.parent else 1 if arm.match else 0

        for arm in sorted(arms, key=stage):
            made = [*(self._children(arm) if arm.parent else self._combinations(arm))]
            self.done[arm.name] += self._with_sizes(made)

        one = bool(experiment.finetune) and experiment.pretrainings is Pretrainings.one
        for arm in arms:
            if not self.done[arm.name]:
                raise UserError(
                    f"arm {arm.name} of {experiment.name} has no points, since its `where` or "
                    "`match.where` is false at every point; correct the condition."
                )
            for own in self.done[arm.name]:
                # With `pretrainings: one`, all seeds share one pre-training, which has seed 0.
                seed = 0 if one else own.config["seed"]
                point = replace(own, config={**own.config, "seed": seed})
                yield replace(point, once=one)
                for task in experiment.finetune:
                    config = self._child_config({"task": task}, point.config)
                    config["parent"] = run_id(seeded_config(own, seed))
                    [size] = self.facts.sizes([config])
                    yield replace(
                        point, config=config, size=size, parent=None if one else point
                    )

    def _fine_tunings(self) -> Iterator[Configuration]:
        """Yield fine-tunings of the finished run that the override `parent` names.

        The model of this run replaces the pre-training of the experiment. So ignore the keys that
        the arm sets or sweeps, unless the command line sweeps them, too.

        Raise UserError if the experiment has several arms, or an arm that sets `model.head_size`.
        """
        arm, *others = self.experiment.arms.values()
        if others or {**arm.grid, **arm.set}.get("model.head_size"):
            expected = (
                "an experiment with a single arm that leaves model.head_size at null, since parent "
                "is set"
            )
            name = self.experiment.yaml
            raise invalid_value("experiment", name, expected, "choose table1")
        axes = self.command_line.axes
        grid = {key: values for key, values in arm.grid.items() if key in axes}
        bare = replace(arm, set={}, grid=grid)
        for values in combinations(bare):
            for task in self.experiment.finetune:
                point = self._composed(bare, {**values, "task": task})
                sizes = leaves(point.config)
                shown = {key: sizes[key] for key in arm.grid if key in sizes}
                named = replace(point, values={**shown, **values})
                yield from self._with_sizes([named])

    def _refuse_names(self) -> None:
        """Raise UserError if a key sets the `name` of a config group instead of choosing an option.

        For example, `model.attention.name=latent` would leave the other keys of the attention
        unchanged, whereas `model/attention=latent` sets all of them.
        """
        settings = [*self.command_line.values.items()]
        for arm in self.experiment.arms.values():
            settings += arm.set.items()
            settings += [
                (key, one) for key, values in arm.grid.items() for one in values
            ]
        for key, value in settings:
            group = key.removesuffix(".name").replace(".", "/")
            option = SYNONYMS.get(str(value), value)
            if key.endswith(".name") and option in self.composer.options(group):
                expected = f"the choice of a file in conf/{group}, which also sets the other keys"
                raise invalid_value(key, value, expected, f"write {group}={option}")

    def _with_sizes(self, points: Sequence[Configuration]) -> Iterator[Configuration]:
        """Yield the points with their sizes. Replace a head size of null by its actual value.

        As a result, a run has the same id whether the config gives null or this value.
        """
        sizes = self.facts.sizes([point.config for point in points])
        for point, size in zip(points, sizes, strict=True):
            model = dict(point.config["model"])
            model["head_size"] = size.get("head_size", model["head_size"])
            yield replace(point, size=size, config={**point.config, "model": model})

    def _children(self, arm: Arm) -> Iterator[Configuration]:
        """Yield the configurations of an arm with a parent.

        Each of its runs starts from the weights of a run of the parent arm.
        """
        assert arm.parent is not None
        self._check_child_keys(arm)
        for parent, values in itertools.product(
            self.done[arm.parent], combinations(arm)
        ):
            if self._differ_on_swept_keys(values, parent.values):
                continue
            config = self._child_config({**arm.set, **values}, parent.config)
            child = Configuration(
                arm, {**parent.values, **values}, config, parent=parent
            )
            if _meets_where(child):
                yield child

    def _check_child_keys(self, arm: Arm) -> None:
        """Raise UserError if an arm with a parent sets or sweeps a key that it may not change.

        Such an arm may choose options of only two config groups, `task` and `model/attention`. It
        may not sweep a key that its parent arm sweeps. Keys of the command line are exempt.
        """
        assert arm.parent is not None
        # A child may set these keys, since the command line sets them in the parents as well.
        shared = {*self.command_line.axes, *self.command_line.fixed}
        for key in (*arm.set, *arm.swept):
            allowed = key in ("task", "model/attention") or key in shared
            if self.composer.is_group(key) and not allowed:
                raise UserError(
                    f"experiment={self.experiment.yaml}: arm {arm.name} cannot choose {key}. An "
                    "arm with a parent can choose only task and model/attention. Set single keys "
                    f"of {key} instead."
                )
            parents = {str(one.values.get(key)) for one in self.done[arm.parent]}
            if key in arm.swept and key not in shared and len(parents) > 1:
                raise UserError(
                    f"experiment={self.experiment.yaml}: arm {arm.name} cannot sweep {key}, "
                    f"because its parent {arm.parent} sweeps it; write one arm for each value."
                )

    def _combinations(self, arm: Arm) -> Iterator[Configuration]:
        """Yield a configuration for each combination of an arm's values.

        In a matched arm, yield one for each pair of a combination and a target size.
        """
        match = arm.match
        if match is None:
            for values in combinations(arm):
                point = self._composed(arm, values)
                if _meets_where(point):
                    yield point
            return

        # Maps the values of a point to the label of its target, to refuse a point with two targets.
        target_of: dict[str, str] = {}
        for values, target in itertools.product(
            combinations(arm), self._targets(match)
        ):
            if self._differ_on_swept_keys(values, target.values):
                continue
            point = self._composed(arm, {**values, **target.shared})
            # Solving is slow, since it builds models. So check the arm's `where` before solving,
            # unless the condition uses the solved key.
            of_solved = match.solve in (arm.where or "")
            if not of_solved and not _meets_where(point):
                continue
            point = self._matched(point, match, target)
            if of_solved and not _meets_where(point):
                continue

            setting = describe_values(point.values)
            if (other := target_of.setdefault(setting, target.label)) != target.label:
                both = f"{other} and {target.label}"
                expected = (
                    f"one target for each point, but {setting} matches two ({both})"
                )
                remedy = "choose one with match.where, or add the key that differs to match.same"
                key = f"experiment.arms.{arm.name}.match.to"
                raise invalid_value(key, match.to, expected, remedy)
            yield point

    def _targets(self, match: Match) -> list[_Target]:
        """Return the targets of a match: the number `match.to`, or the points of the arm it names.

        Leave out points that do not meet the condition `match.where`.
        """
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
                remedy = f"correct the list; the config has {unknown.args[0]}"
                raise invalid_value("match.same", same, expected, remedy) from None
            label = f"{match.to} {describe_values(point.values)}".strip()
            size = self._count(match, point.size, point.config)
            targets.append(_Target(label, size, shared, point.values))
        return targets

    def _differ_on_swept_keys(
        self, values: Mapping[str, Any], others: Mapping[str, Any]
    ) -> bool:
        """Return whether two points differ in a key that the command line sweeps.

        If so, neither point may be the target or the parent of the other. For example, if the
        command line sweeps model.layers=2,4, points with 2 layers are matched to 2 layers only.
        """
        swept = self.command_line.axes.keys() & values.keys() & others.keys()
        return any(values[key] != others[key] for key in swept)

    def _count(self, match: Match, size: Size, config: Mapping[str, Any]) -> int:
        """Return the entry of `size` that `match.count` names, such as `params_total`.

        Raise UserError if models of this architecture have no such entry.
        """
        if match.count in size:
            return int(size[match.count])
        counts = ", ".join(count for count in Count if count in size)
        expected = f"a count that the model {config['model']['name']} has ({counts})"
        remedy = "choose one of them, or a decoder whose attention has `cached_numbers`"
        raise invalid_value("match.count", match.count, expected, remedy)

    def _matched(
        self, point: Configuration, match: Match, target: _Target
    ) -> Configuration:
        """Return the point with the value of the key `match.solve` that best matches the target.

        Raise UserError if no value brings the size within `match.tolerance` of the target.
        """
        template = RunTemplate(point.config)

        def size_at(value: int) -> int | Invalid:
            try:
                [size] = self.facts.sizes([template.run({match.solve: value})])
            except Invalid as invalid:
                return invalid
            return self._count(match, size, point.config)

        where = f"experiment={self.experiment.yaml}: arm {point.arm.name}"
        step = self._step(point, match)
        try:
            value, achieved = solve(size_at, target.size, step=step)
        except UserError as problem:
            raise UserError(
                f"{where} cannot solve for {match.solve}: {problem}"
            ) from None
        error = achieved / target.size - 1
        if abs(error) > match.tolerance:
            aim = f"{target.size:,}"
            if not isinstance(match.to, int):
                aim += f" ({target.label})"
            raise UserError(
                f"{where}: no value of {match.solve} brings {match.count} within "
                f"{match.tolerance:.2%} of {aim}. The nearest is {match.solve}={value} with "
                f"{achieved:,} ({error:+z.2%}). Increase match.tolerance, or choose another target."
            )
        solved = {match.solve: value}
        return replace(
            point,
            values={**point.values, **solved},
            matched=Matched(
                target.label, match.count.value, target.size, achieved, error
            ),
            config=template.run(solved),
        )

    def _step(self, point: Configuration, match: Match) -> int:
        """Return the step between candidate solutions. Each candidate is a multiple of it.

        The step is `match.multiple_of`, or the value of the key that `match.multiple_of` names.
        """
        step: Any = match.multiple_of
        if isinstance(step, str):
            step = leaves(point.config).get(step)
        if not isinstance(step, int) or step < 1:
            expected = "a whole number of at least 1, or a key with such a value"
            key = f"experiment.arms.{point.arm.name}.match.multiple_of"
            raise invalid_value(key, match.multiple_of, expected, "correct it")
        return step

    def _composed(self, arm: Arm, values: Mapping[str, Any]) -> Configuration:
        """Return the configuration of a point of an arm without a parent arm.

        If the config key `parent` names a finished run, use its model and tokenizer.
        """
        settings = {**arm.set, **values}
        template, plain = self._template(settings)
        config = template.run(plain)
        given = {*self.command_line.keys, *settings}
        if config["parent"] is not None:
            config = self._with_parent(config, given)
        return Configuration(arm, values, self._with_data(config, given))

    def _with_parent(
        self, config: Mapping[str, Any], given: Collection[str]
    ) -> dict[str, Any]:
        """Return `config` with the model and the tokenizer of the finished run `config["parent"]`.

        Keep the values of the keys in `given`, which the command line or the arm sets. If such a
        value does not fit the parent, `check_start` refuses the run later.
        """
        parent = self.parents.record(config["parent"])
        whole = self._inherited(config, parent.config, given)
        whole["parent"] = parent.id
        for key in given:
            # The override model=NAME sets model.name.
            key = "model.name" if key == "model" else key
            if key.startswith("model."):
                set_value(key, lookup(key, config), whole)
        return whole

    def _inherited(
        self,
        config: Mapping[str, Any],
        parent: Mapping[str, Any],
        given: Collection[str],
    ) -> dict[str, Any]:
        """Return `config` with the model and the tokenizer of another config, `parent`.

        Keep these parts of `config`:

        - its dropout, since dropout has no weights
        - its attention, if `given` has the key "model/attention"
        - each setting of its tokenizer whose key is in `given`, such as "task.vocabulary_size"
        """
        model = copy.deepcopy(parent["model"])
        if "dropout" in model and "dropout" in config["model"]:
            model["dropout"] = config["model"]["dropout"]
        if "model/attention" in given:
            model["attention"] = copy.deepcopy(config["model"]["attention"])

        task, theirs = config["task"], parent["task"]
        shared = ("vocabulary_size", "tokenizer", "marks", "longest")
        known = {key: theirs[key] for key in shared if key in theirs}
        if "tokenizer" in task and task["name"] != theirs["name"]:
            known["tokenizer"] = tokenizer_of(parent, self.facts)
        elif "tokenizer" not in task and "marks" not in theirs:
            # A task without the key `tokenizer` trains its own tokenizer. If the run needs the
            # tokenizer of the parent, check_start refuses the run later.
            known.pop("tokenizer", None)
        kept = {key: task[key] for key in known if f"task.{key}" in given}
        return {**config, "model": model, "task": {**task, **known, **kept}}

    def _template(
        self, settings: Mapping[str, Any]
    ) -> tuple[RunTemplate, dict[str, Any]]:
        """Compose a template from the command line and the config groups in `settings`.

        Return (template, keys). `keys` has the other entries of `settings`, which the template does
        not set. For {"task": "mnli", "model.heads": 8}, it is {"model.heads": 8}.
        """
        yaml = self.experiment.yaml
        groups = {k: v for k, v in settings.items() if self.composer.is_group(k)}
        chosen = [f"experiment={yaml}"] if yaml else []
        chosen += [f"{key}={value}" for key, value in groups.items()]
        base = self.composer.base
        models = [
            base([f"model={name}"]) for name in self.command_line.axes.get("model", ())
        ]

        def is_of_others(key: str) -> bool:
            """Return whether other tasks or models have this key, but not the chosen ones."""
            of_task = "task" in groups and key.startswith("task.")
            of_model = "model" in groups and any(model.has(key) for model in models)
            return (of_task or of_model) and not base(chosen).has(key)

        own = [
            text
            for key, text in self.command_line.fixed.items()
            if key not in groups and not is_of_others(key)
        ]
        template = base([*chosen, *own])
        keys = {k.lstrip("+"): v for k, v in settings.items() if k not in groups}
        return template, keys

    def _child_config(
        self, settings: Mapping[str, Any], parent: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the config of a run that starts from the weights and tokenizer of `parent`.

        - If `settings` keep the task, return the parent's config, changed by `settings`.
        - If `settings` choose another task, return the config of that task with the parent's model,
          but keep the dropout of that task, since dropout has no weights.
        """
        task = parent["task"]["name"]
        template, plain = self._template({"task": task, **settings})
        base, composed = template.unresolved, template.run({})
        if composed["task"]["name"] == task:
            kept = {
                key: value for key, value in parent["model"].items() if key == "dropout"
            }
            base = {**parent, "model": {**composed["model"], **kept}}
        config = RunTemplate(self._inherited(base, parent, settings)).run(plain)
        return self._with_data(config, {*self.command_line.keys, *settings})

    def _with_data(
        self, config: dict[str, Any], given: Collection[str]
    ) -> dict[str, Any]:
        """Set `data.digest` to the digest of the training text, and make `data.root` absolute.

        If `data.root` has a subfolder named after the task, `data.root` becomes this subfolder.
        Return `config`, which is changed in place.

        `given` has the keys that the command line or the arm sets. Raise UserError if the chosen
        source of text ignores one of them, or if `data.hub.path` is a relative path.
        """
        data, task = config["data"], config["task"]["name"]
        values = leaves(data, "data.")
        for key, source in READ_BY.items():
            value = values.get(key)
            ignored = value is not None and source != data["source"]
            # Tasks and scales may set keys of other sources, so refuse only keys in `given`. No
            # task or scale sets data.root, so refuse an ignored data.root in any case.
            if ignored and (key in given or key == "data.root"):
                expected = f"null, since data.source={data['source']} ignores this key"
                remedy = f"leave it out, or choose data={source}"
                raise invalid_value(key, value, expected, remedy)
        if data.get("root"):
            root = absolute_path("data.root", data["root"])
            data["root"] = str(root / task if (root / task).is_dir() else root)
        hub = Path((data.get("hub") or {}).get("path") or "/")
        if not hub.is_absolute() and hub.is_dir():
            expected = "an absolute path, since jobs start in another folder"
            remedy = f"write data.hub.path={hub.resolve()}"
            raise invalid_value("data.hub.path", hub, expected, remedy)
        data["digest"] = self.facts.text(config)["digest"]
        return config


def _meets_where(point: Configuration) -> bool:
    """Return whether a point meets the condition of its arm.

    In the condition, a head size of null counts as embedding size // heads.
    """
    model = dict(point.config["model"])
    heads = model.get("heads")
    if not model.get("head_size", 0) and isinstance(heads, int) and heads > 0:
        model["head_size"] = model["embedding_size"] // heads
    return holds(point.arm.where, {**point.config, "model": model})
