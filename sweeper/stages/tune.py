"""Tune hyperparameters with training runs called trials, before the judged runs are planned.

To tune a point, the sweep trains it with every combination of the values in `experiment.tune.grid`,
and chooses the combination with the best validation metric. It first tunes only the smallest and
the largest model of each arm. If the same values are best for both, all points of the arm get these
values. Otherwise, the sweep tunes every point of the arm. The sweep also tunes every point if the
best value is still the smallest or the largest of its range after the range has grown.

The trials of an experiment are the runs of another experiment, <experiment>_trials. They are
planned, collected and drawn like other runs, but are not in the results of the tuned experiment.
Choices depend only on finished trials. So a sweep that is killed and repeated chooses the same
values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sweeper.plan.compose import RunTemplate
from sweeper.plan.experiment import SUFFIX, Experiment, Tune, at_end, beyond
from sweeper.plan.facts import Facts, Invalid
from sweeper.plan.plan import Chosen, Configuration, Plan
from sweeper.plan.seeds import with_seeds
from sweeper.results.choices import (
    CONFIRMED,
    FINALISTS,
    choices,
    ranked,
    settled,
)
from sweeper.results.collect import Records
from sweeper.results.points import Point
from sweeper.results.remarks import tuned_in_words
from sweeper.results.table import Table, direction
from sweeper.run.failures import hours
from sweeper.size_server import SizeServer
from sweeper.stages.terminal import print_lines
from sweeper.stages.train import Executor, freeze
from sweeper.store.attempts import Cause
from sweeper.store.errors import invalid_value
from sweeper.store.files import canonical
from sweeper.store.runs import RunStore


@dataclass(frozen=True)
class Search:
    """The set of trials planned so far for one experiment. `following` adds the next trials.

    Attributes:
        tune: the section `tune` of the experiment, including values added to its ranges so far.
        most: the largest number of values to which the range of each key may grow.
        seeds: the number of seeds of each trial with several seeds. A trial is a point with one
            combination of values. `_trial` makes the keys.
        exhaustive: the arms in which every point is tuned. In the other arms, only the smallest and
            the largest model are tuned.
    """

    tune: Tune
    most: Mapping[str, int]
    seeds: Mapping[str, int] = field(default_factory=dict)
    exhaustive: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tune: Tune) -> Search:
        """Return the first search: every combination of values in `tune.grid`, with one seed."""
        return cls(tune, {key: len(own) + tune.grow for key, own in tune.grid.items()})

    def following(self, table: Table) -> Search:
        """Return the search with the next trials added, or an equal one if all values are chosen.

        Take only the first of these steps that adds trials:

        1. If the smallest or largest value of a range is best, add a value to the range.
        2. For each tuned point, try the two best combinations with a second seed.
        3. If the difference between these two may be noise, try both with all seeds.
        4. If the smallest and the largest model of an arm choose different values, or a value at
           the end of a range, tune every point of the arm.

        Args:
            table: the table of the trials so far. All must have finished or diverged.

        Raises:
            UserError: all trials of a point diverged, or lack the metric.
        """
        by_setting = ranked(table)
        grown = self._grown([group[0].settings for group in by_setting])
        if grown is not self:
            return grown

        seeds = dict(self.seeds)
        for group in by_setting:
            most = max(len(point.runs) for point in group)
            seeds |= dict.fromkeys(map(_trial, group[:FINALISTS]), max(most, CONFIRMED))
        if seeds != self.seeds:
            return replace(self, seeds=seeds)

        found = choices(table)
        grown = self._grown([one.values for one in found])
        if grown is not self:
            return grown

        for group, one in zip(by_setting, found, strict=True):
            if one.alternative:
                finalists = map(_trial, group[:FINALISTS])
                seeds |= dict.fromkeys(finalists, len(self.tune.seeds))
        if seeds != self.seeds:
            return replace(self, seeds=seeds)

        first = {one.arm: one.values for one in found}
        exhaustive = {
            one.arm
            for one in found
            if one.values != first[one.arm] or self.ends(one.values)
        }
        return replace(self, exhaustive=self.exhaustive | exhaustive)

    def ends(self, values: Mapping[str, Any]) -> list[str]:
        """Return the keys whose value in `values` is the smallest or largest of its range."""
        return [key for key, own in self.tune.grid.items() if at_end(own, values[key])]

    def _grown(self, best: Sequence[Mapping[str, Any]]) -> Search:
        """Return the search with one value added to a range, for all arms.

        `best` has the best values of each tuned point. Widen the first range that may still grow
        and whose smallest or largest value is in `best`. Return `self` if there is no such range.
        """
        for key, values in self.tune.grid.items():
            for one in best if len(values) < self.most[key] else ():
                value = beyond(values, one[key])
                if value is not None:
                    wider = {**self.tune.grid, key: sorted([*values, value])}
                    return replace(self, tune=replace(self.tune, grid=wider))
        return self


def _trial(point: Point) -> str:
    """Return the key of a trial, without its seed: the arm and all settings, as JSON."""
    return canonical([point.arm, point.settings])


def trials(plan: Plan, searches: Mapping[str, Search], facts: Facts) -> Plan:
    """Return the plan of all trials, with one experiment for each tuned experiment.

    Args:
        plan: the plan of the judged runs.
        searches: the search of each tuned experiment, by name.
        facts: the interface to the size server, for the sizes of models.

    Raises:
        Invalid: a value of a tuned key makes a config invalid.
    """
    experiments, configurations, texts = {}, {}, {}
    for name, search in searches.items():
        own, judged, tune = name + SUFFIX, plan.experiments[name], search.tune
        experiments[own] = Experiment(
            name=own,
            title=f"{judged.title}: trials",
            metric=tune.by,
            arms={key: replace(arm, metric=None) for key, arm in judged.arms.items()},
            x=next(iter(tune.grid)),
            figure="choices",
            seeds=list(tune.seeds[:1]),
            tune=tune,
        )
        configurations[own] = _configurations(plan.configurations[name], search, facts)
        texts[own] = plan.texts[name]
    made = replace(
        plan, experiments=experiments, texts=texts, configurations=configurations
    )
    return with_seeds(made, {})


def by_arm(points: Iterable[Configuration]) -> dict[str, list[Configuration]]:
    """Return the points of each arm, sorted by their number of parameters."""
    found: dict[str, list[Configuration]] = {}
    for point in points:
        found.setdefault(point.arm.name, []).append(point)
    return {
        arm: sorted(own, key=lambda point: point.size["params_total"])
        for arm, own in found.items()
    }


def tried(
    points: Sequence[Configuration], exhaustive: Collection[str]
) -> list[Configuration]:
    """Return the points to tune.

    In the arms in `exhaustive`, these are all points. In every other arm, these are the points with
    the fewest and the most parameters.
    """
    ends = {
        setting(one) for arm in by_arm(points).values() for one in (arm[0], arm[-1])
    }
    return [one for one in points if one.arm.name in exhaustive or setting(one) in ends]


def with_choices(
    points: Sequence[Configuration], chosen: Mapping[str, Sequence[Chosen]]
) -> Iterator[Configuration]:
    """Yield each point with the values that tuning chose.

    If tuning could not decide between two choices, yield the point with each of them.

    A point without trials takes the choice of another point of its arm. The smaller half of the
    points take the choice of the smallest model, and the others take that of the largest model.

    Args:
        points: the points before tuning.
        chosen: the choice of each tuned point, or two choices if tuning could not decide between
            them. `setting` makes the keys.
    """
    values = {}
    for arm in by_arm(points).values():
        for place, point in enumerate(arm):
            end = arm[0] if 2 * place + 1 < len(arm) else arm[-1]
            values[setting(point)] = chosen.get(setting(point), chosen[setting(end)])
    for point in points:
        for place, own in enumerate(values[setting(point)]):
            config = RunTemplate(point.config).run(own.values)
            made = replace(point, config=config, chosen=own)
            if place:
                settings = {**point.values, **own.values}
                made = replace(made, values=settings, alternative_to=point.values)
            yield made


def setting(point: Configuration) -> str:
    """Return the key of a point: its arm and its values, as JSON."""
    return canonical([point.arm.name, point.values])


def _configurations(
    points: Sequence[Configuration], search: Search, facts: Facts
) -> list[Configuration]:
    """Return the configurations of trials: each tuned point with every combination of values."""
    tune = search.tune
    found = []
    for point in tried(points, search.exhaustive):
        for values in itertools.product(*tune.grid.values()):
            given = dict(zip(tune.grid, values, strict=True))
            config = RunTemplate(point.config).run(given)
            trainer = config["trainer"]
            # Tuning chooses by a validation metric, so validate at least once, at the end.
            trainer["validate_every"] = trainer["validate_every"] or trainer["steps"]
            settings = {**point.values, **given}
            number = search.seeds.get(canonical([point.arm.name, settings]), 1)
            seeds = tune.seeds[:number]
            found.append(replace(point, values=settings, config=config, seeds=seeds))
    sizes = facts.sizes([point.config for point in found])
    for point, size in zip(found, sizes, strict=True):
        if size != point.size:
            # Refuse keys that change a size or a cost, since the plan prints both before tuning.
            raise invalid_value(
                "experiment.tune.grid",
                list(tune.grid),
                "keys that do not change the size of a model or the cost of a run",
                "remove the keys that do",
            )
    return found


@dataclass
class Tuning:
    """The stage of a sweep that tunes hyperparameters. `choose` trains the trials.

    Attributes:
        plan: the judged runs before tuning.
        facts: the interface to the size server, for the sizes of models.
        store: the runs on disk.
        searches: the search of each tuned experiment, by name.
        trials: the plan of all trials so far.
        judged: the plan of the judged runs with the chosen values; None until all are chosen.
    """

    plan: Plan
    facts: Facts
    store: RunStore
    searches: dict[str, Search]
    trials: Plan
    judged: Plan | None = None

    @classmethod
    def of(cls, plan: Plan, process: SizeServer, store: RunStore) -> Tuning:
        """Return the tuning of a plan, with the choices that finished trials on disk allow so far.

        Raises:
            UserError: a value in `tune.grid` is invalid, the metric `tune.by` is unknown, or all
                trials of a point diverged.
        """
        searches = {
            name: Search.of(one.tune)
            for name, one in plan.experiments.items()
            if one.tune
        }
        for search in searches.values():
            direction(search.tune.by)  # raises UserError if the metric is unknown
        facts = Facts(process, plan.outputs / "cache" / "facts.json")
        made = cls(plan, facts, store, searches, trials(plan, searches, facts))
        made.advance()
        facts.save()
        return made

    @property
    def whole(self) -> Plan:
        """The trials and the judged runs as one plan.

        Until all values are chosen, the judged runs have the values from before tuning.
        """
        first, then = self.trials, self.judged or self.plan
        return replace(
            then,
            experiments={**first.experiments, **then.experiments},
            texts={**first.texts, **then.texts},
            configurations={**first.configurations, **then.configurations},
            points=[*first.points, *then.points],
            runs={**first.runs, **then.runs},
        )

    def advance(self) -> bool:
        """Read the finished trials and plan the next ones. Return whether all values are chosen.

        Raises:
            UserError: all trials of a point diverged.
        """
        while True:
            tables = Records(self.store).tables(self.trials.as_data())
            if not all(map(settled, tables)):
                return False
            found = dict(zip(self.searches, tables, strict=True))
            following = {name: self._following(name, found[name]) for name in found}
            if following == self.searches:
                self.judged = self._judged(found)
                return True
            self.searches = following
            self.trials = trials(self.plan, self.searches, self.facts)

    def choose(self, executor: Executor) -> Plan | None:
        """Train trials until all values are chosen. Return the plan of the judged runs.

        Return None if trials failed or were not started, since no values were chosen then.

        Raises:
            UserError: the data cannot be prepared, or all trials of a point diverged.
            SystemExit: a signal stopped the sweep. Running jobs have saved checkpoints.
        """
        if executor.options.retrain:
            again = executor.other_code(self.trials).again
            left = [run for run in self.trials.runs if run in again]
            executor.train(self.trials, left)
        while not self.advance():
            left = [
                run
                for run in executor.left(self.trials)
                if self.store.run(run).status().cause is not Cause.NAN
            ]
            if not left or executor.tripped:
                words = (
                    "Some trials failed or were not started, so no values were chosen and no claim "
                    "was judged. Repeat the command to train these trials."
                )
                print_lines(executor.console, words, style="bold red")
                return None
            executor.train(self.trials, left)
        freeze(self.trials, self.store, {})
        executor.chosen_h = hours(self.store, self.trials.runs)
        assert self.judged is not None
        for name, described in self.judged.as_data()["experiments"].items():
            for line in tuned_in_words(described):
                print_lines(executor.console, f"{name}: {line}")
        return self.judged

    def budgets(self) -> Iterator[str]:
        """Yield, for each tuned experiment, a sentence about the number and FLOPs of its trials."""
        return map(self._budget, self.searches)

    def _budget(self, name: str) -> str:
        search, points = self.searches[name], self.plan.configurations[name]
        tune, begun = search.tune, tried(points, ())
        values = math.prod(map(len, tune.grid.values()))
        fewest = values + FINALISTS * (CONFIRMED - 1)
        most = math.prod(search.most.values()) + FINALISTS * (len(tune.seeds) - 1)

        # A trial costs as much as a judged run of its point, since both train the same model for
        # the same number of steps.
        planned = [point for point in self.plan.points if point.experiment == name]
        runs = {canonical([point.arm, point.values]): point.run for point in planned}

        def flops(ids: Collection[str]) -> int:
            return sum(self.plan.runs[run].flops for run in ids)

        every = flops({point.run for point in planned})

        def price(these: Iterable[Configuration], each: int) -> str:
            distinct = {runs[setting(point)] for point in these}
            share = each * flops(distinct) / every
            return f"{each * len(distinct)} trials ({share:.0%})"

        arms = "; ".join(
            f"{arm} {price(own, fewest)}" for arm, own in by_arm(begun).items()
        )
        return (
            f"{name}: trials choose one of {values} values of {', '.join(tune.grid)} by {tune.by}, "
            "first for the smallest and the largest model of each arm. The arms need these trials "
            f"(FLOPs in % of the judged runs' FLOPs): {arms}; in total {price(begun, fewest)}; at "
            f"most {price(points, most)}."
        )

    def _following(self, name: str, table: Table) -> Search:
        """Return the search of the experiment `name` with the next trials added.

        `table` has the results of its trials so far. If a value added to a range makes a config
        invalid, leave the value out, and let no range grow again.
        """
        search = self.searches[name]
        following = search.following(table)
        try:
            trials(self.plan, {name: following}, self.facts)
        except Invalid:  # for example, dropout above 1
            most = {key: len(values) for key, values in search.tune.grid.items()}
            return replace(search, most=most)
        return following

    def _judged(self, tables: Mapping[str, Table]) -> Plan:
        """Return the plan of the judged runs, with the values that the trials chose."""
        experiments = dict(self.plan.experiments)
        configurations = dict(self.plan.configurations)
        described: dict[str, list[dict[str, Any]]] = {}
        for name, search in self.searches.items():
            found = choices(tables[name])
            experiments[name] = replace(experiments[name], tune=search.tune)
            described[name] = [
                asdict(one) | {"at_end": search.ends(one.values)} for one in found
            ]
            chosen: dict[str, list[Chosen]] = {}
            for one in found:
                both = filter(None, (one.values, one.alternative))
                key = canonical([one.arm, one.setting])
                chosen[key] = [Chosen(values, one.trials) for values in both]
            configurations[name] = list(with_choices(configurations[name], chosen))
        made = replace(
            self.plan,
            experiments=experiments,
            configurations=configurations,
            tuning=described,
        )
        return with_seeds(made, {})
