"""Tuning: trials choose values for every arm before the judged runs are planned.

The trials of an experiment are runs of another experiment, <experiment>_trials. They are planned,
collected and drawn like other runs, and do not count in the results of the tuned experiment.
Choices depend only on the validation metrics of finished trials. If a sweep is killed and repeated,
it chooses the same values and judges the same runs.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rich.text import Text

from sweeper.plan.compose import RunTemplate
from sweeper.plan.experiment import SUFFIX, Experiment, Per, Tune, at_end, beyond
from sweeper.plan.facts import Facts, Invalid
from sweeper.plan.plan import Chosen, Configuration, Plan
from sweeper.plan.seeds import with_seeds
from sweeper.results.choices import FINALISTS, Choice, choices, ranked, settled
from sweeper.results.collect import Records
from sweeper.results.points import tuned_in_words
from sweeper.results.table import direction
from sweeper.run.failures import hours
from sweeper.size_server import SizeServer
from sweeper.store.attempts import Cause
from sweeper.store.errors import invalid_value
from sweeper.store.files import canonical
from sweeper.store.plans import newest
from sweeper.store.records import Record
from sweeper.store.runs import RunStore
from sweeper.train import Executor


def trials(
    plan: Plan, tunes: Mapping[str, Tune], facts: Facts, finalists: Collection[str] = ()
) -> Plan:
    """Return the plan of all trials, with one experiment for each tuned experiment.

    Args:
        plan: the plan of the judged runs.
        tunes: the tuning of each tuned experiment, by name.
        facts: answers questions about configs.
        finalists: the trials to train with all seeds, each as canonical text of arm and setting.

    Raises:
        Invalid: a value makes a config invalid.
    """
    experiments, configurations, texts = {}, {}, {}
    for name, tune in tunes.items():
        own, judged = name + SUFFIX, plan.experiments[name]
        experiments[own] = Experiment(
            name=own,
            title=f"{judged.title}: trials",
            metric=tune.by,
            arms={
                key: replace(arm, seeds=[], metric=None)
                for key, arm in judged.arms.items()
            },
            x=next(iter(tune.grid)),
            figure="choices",
            seeds=list(tune.seeds[:1]),
            tune=tune,
        )
        configurations[own] = _points(plan.configurations[name], tune, facts, finalists)
        texts[own] = plan.texts[name]
    made = replace(
        plan, experiments=experiments, texts=texts, configurations=configurations
    )
    return with_seeds(made, {})


def shared_by(point: Configuration, tune: Tune) -> str:
    """Return a key, as text, that is equal for all points that share one choice."""
    of = {
        Per.arm: None,
        Per.size: point.size["params_total"],
        Per.point: dict(point.values),
    }
    return canonical([point.arm.name, of[tune.per]])


def middles(points: Iterable[Configuration], tune: Tune) -> dict[str, Configuration]:
    """Return the middle point of each group that shares one choice. Trials train only this one.

    The keys are those of `shared_by`.
    """
    groups: dict[str, list[Configuration]] = {}
    for point in points:
        groups.setdefault(shared_by(point, tune), []).append(point)
    return {shared: group[len(group) // 2] for shared, group in groups.items()}


def chosen_into(
    points: Iterable[Configuration], chosen: Mapping[str, Sequence[Chosen]], tune: Tune
) -> Iterator[Configuration]:
    """Yield each point with the values chosen for it, followed by its alternatives.

    `chosen`: by the arm and setting of each middle point, the choice and then the alternatives.
    """
    points = list(points)
    tried = middles(points, tune)
    for point in points:
        middle = tried[shared_by(point, tune)]
        best, *others = (
            replace(point, config=RunTemplate(point.config).run(own.values), chosen=own)
            for own in chosen[canonical([middle.arm.name, middle.values])]
        )
        yield best
        for other in others:
            assert other.chosen
            values = {**point.values, **other.chosen.values}
            yield replace(other, values=values, alternative_to=point.values)


def _points(
    points: Iterable[Configuration],
    tune: Tune,
    facts: Facts,
    finalists: Collection[str],
) -> list[Configuration]:
    """Return the configurations of the trials: every combination of values at each middle point."""
    found = []
    for point in middles(points, tune).values():
        for values in itertools.product(*tune.grid.values()):
            tried = dict(zip(tune.grid, values, strict=True))
            config = RunTemplate(point.config).run(tried)
            trainer = config["trainer"]
            # A choice needs a validation metric: validate at the end if the config never does.
            trainer["validate_every"] = trainer["validate_every"] or trainer["steps"]
            settings = {**point.values, **tried}
            all_seeds = canonical([point.arm.name, settings]) in finalists
            arm = replace(point.arm, seeds=list(tune.seeds) if all_seeds else [])
            found.append(replace(point, arm=arm, values=settings, config=config))
    answers = facts.sizes_if_valid([point.config for point in found])
    made = []
    for point, size in zip(found, answers, strict=True):
        if isinstance(size, Invalid):
            raise size
        if size["params_total"] != point.size["params_total"]:
            expected = "keys that do not change the size of a model"
            raise invalid_value(
                "experiment.tune.grid",
                list(tune.grid),
                expected,
                "leave out the others",
            )
        made.append(replace(point, size=size))
    return made


@dataclass
class Tuning:
    """The tuning of a plan."""

    plan: Plan  # the judged runs before tuning, with the values of their configs
    facts: Facts
    store: RunStore
    tunes: dict[str, Tune]  # by experiment; ranges in them grow
    trials: Plan
    finalists: set[str] = field(default_factory=set)  # the argument of `trials`
    # The judged runs with chosen values; None until all is chosen.
    judged: Plan | None = None

    @classmethod
    def of(cls, plan: Plan, process: SizeServer, store: RunStore) -> Tuning:
        """Return the tuning of a plan, after reading its finished trials.

        Raise UserError if a value of the grid is invalid, or if no metric can choose.
        """
        tunes = {name: one.tune for name, one in plan.experiments.items() if one.tune}
        for tune in tunes.values():
            direction(
                tune.by
            )  # raises UserError for a metric without a better direction
        facts = Facts(process, plan.outputs / "cache" / "facts.json")
        made = cls(plan, facts, store, tunes, trials(plan, tunes, facts))
        made.advance()
        facts.save()
        return made

    @property
    def whole(self) -> Plan:
        """The trials and the judged runs as one plan. Before a choice, these are not tuned yet."""
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
        """Read the finished trials and plan the trials that follow. Return whether all is chosen.

        If the best value is at an end of its range, the range grows. Then the two best combinations
        of each setting are tried with all seeds. Raise UserError if all trials of a setting
        diverged.
        """
        while True:
            tables = Records(self.store).tables(self.trials.as_data())
            if not all(map(settled, tables)):
                return False
            names = [table.name.removesuffix(SUFFIX) for table in tables]
            by_setting = [ranked(table) for table in tables]
            best = [[group[0].settings for group in groups] for groups in by_setting]
            if self._grow(dict(zip(names, best, strict=True))):
                continue
            finalists = {
                canonical([point.arm, point.settings])
                for groups in by_setting
                for group in groups
                for point in group[:FINALISTS]
            }
            if not finalists <= self.finalists:
                self.finalists |= finalists  # a finalist that diverged stays one
                self.trials = trials(self.plan, self.tunes, self.facts, self.finalists)
                continue
            found = dict(zip(names, map(choices, tables), strict=True))
            if self._grow(
                {name: [one.values for one in own] for name, own in found.items()}
            ):
                continue
            self.judged = self._judged(found)
            return True

    def choose(self, executor: Executor) -> Plan | None:
        """Train the trials, as `tune` does."""
        return tune(executor, self)

    def budgets(self) -> Iterator[str]:
        """Yield a sentence on the planned cost of tuning each experiment."""
        return budgets(self)

    def spent(self, store: RunStore) -> Iterator[str]:
        """Yield a sentence on the measured cost of tuning each experiment."""
        return spent(self, store)

    def _grow(self, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> bool:
        """Grow each range that has a best value at its end by one step. Return whether one grew.

        `found`: the best values of every choice, by experiment. A range grows for all arms, so that
        all try the same values.
        """
        grown = False
        for name, started in self.tunes.items():
            first = self.plan.experiments[name].tune
            assert first is not None
            for key, values in started.grid.items():
                best = dict.fromkeys(one[key] for one in found[name])
                steps = [
                    value for one in best if (value := beyond(values, one)) is not None
                ]
                left = len(first.grid[key]) + first.grow - len(values)
                for value in steps[:left]:
                    tune = self.tunes[name]
                    wider = {**tune.grid, key: sorted([*tune.grid[key], value])}
                    tunes = {**self.tunes, name: replace(tune, grid=wider)}
                    try:
                        self.trials = trials(
                            self.plan, tunes, self.facts, self.finalists
                        )
                    except Invalid:  # for example dropout above 1
                        continue
                    self.tunes, grown = tunes, True
        return grown

    def _judged(self, found: Mapping[str, Sequence[Choice]]) -> Plan:
        """Return the plan of the judged runs with the chosen values."""
        experiments = dict(self.plan.experiments)
        configurations = dict(self.plan.configurations)
        described: dict[str, list[dict[str, Any]]] = {}
        for name, tune in self.tunes.items():
            experiments[name] = replace(experiments[name], tune=tune)
            chosen = {}
            described[name] = []
            for one in found[name]:
                chosen[canonical([one.arm, one.setting])] = [
                    Chosen(values, one.trials)
                    for values in (one.values, one.alternative)
                    if values
                ]
                ends = [
                    key
                    for key, known in tune.grid.items()
                    if at_end(known, one.values[key])
                ]
                described[name].append(asdict(one) | {"at_end": ends})
            configurations[name] = list(chosen_into(configurations[name], chosen, tune))
        made = replace(
            self.plan,
            experiments=experiments,
            configurations=configurations,
            tuning=described,
        )
        return with_seeds(made, {})


def tune(executor: Executor, tuning: Tuning) -> Plan | None:
    """Train trials until all values are chosen. Return the plan to judge, or None if trials failed.

    Raises:
        UserError: the data cannot be built, or all trials of a setting diverged.
        SystemExit: a signal stopped the sweep. Running jobs have saved.
    """
    if executor.options.retrain:
        again = executor.other_code(tuning.trials).again
        _train(executor, tuning, [run for run in tuning.trials.runs if run in again])
    while not tuning.advance():
        runs = {run: executor.store.run(run) for run in executor.left(tuning.trials)}
        left = [run for run in runs if runs[run].status().cause is not Cause.NAN]
        if not left or executor.tripped:
            missing = "were not started" if executor.tripped else "failed"
            words = f"Some trials {missing}, so that no values were chosen and nothing was judged."
            remedy = "Repeat the command to train them."
            executor.console.print(Text(f"{words} {remedy}", style="bold red"))
            return None
        _train(executor, tuning, left)
    executor.freeze(tuning.trials, {})
    executor.chosen_h = hours(executor.store, tuning.trials.runs)
    assert tuning.judged is not None
    for name, described in tuning.judged.as_data()["experiments"].items():
        for line in tuned_in_words(described):
            executor.console.print(Text(f"{name}: {line}"), soft_wrap=True)
    return tuning.judged


def _train(executor: Executor, tuning: Tuning, left: Sequence[str]) -> None:
    throughput = executor.throughput(tuning.trials)
    estimate = throughput.estimate(tuning.trials.runs[run] for run in left)
    executor.train(tuning.trials, left, estimate=estimate)


def budgets(tuning: Tuning) -> Iterator[str]:
    """Yield a sentence on the planned cost of tuning each experiment: trials and their FLOPs."""
    # Each trial is planned with the first seed only.
    planned = trials(tuning.plan, tuning.tunes, tuning.facts)
    for name, tune in tuning.tunes.items():
        first = tuning.plan.experiments[name].tune
        assert first is not None
        values = most = 1
        for key, own in tune.grid.items():
            values *= len(own)
            grows = {*map(type, own)} <= {int, float}
            most *= len(first.grid[key]) + first.grow * grows
        of_finalists = FINALISTS * (len(tune.seeds) - 1)  # trials with the other seeds
        each = values + of_finalists

        points = planned.configurations[name + SUFFIX]
        by_arm = Counter(point.arm.name for point in points)
        arms = ", ".join(f"{arm} {count // values}" for arm, count in by_arm.items())
        tried = _runs(planned, name + SUFFIX)
        number = len(tried) // values * each
        above = "" if tuning.judged else " (above: those known so far)"

        # The FLOPs of one trial for every choice, as a share of those of the judged runs.
        judged = max(_flops(_runs(tuning.plan, name)), 1)
        of_one = _flops(tried) / judged / values
        share = f"{of_one * each:.0%} of the FLOPs of the judged runs"
        if most > values:
            share += f", at most {of_one * (most + of_finalists):.0%} if ranges grow"
        yield (
            f"{name}: trials first choose {', '.join(tune.grid)} among {values} by {tune.by}, with "
            f"{each} trials per choice (choices: {arms}): {number} trials in all{above}, {share}."
        )


def spent(tuning: Tuning, store: RunStore) -> Iterator[str]:
    """Yield a sentence on the measured cost of tuning each experiment and of its judged runs."""
    for name in tuning.tunes if tuning.judged else ():
        trials, took = _hours(name + SUFFIX, store)
        _, own = _hours(name, store)
        share = (
            f" ({took / own:.0%} of the {own:.2g} of the judged runs)" if own else ""
        )
        yield f"{name}: tuning took {trials} trials, {took:.2g} device hours{share}."


def _runs(plan: Plan, experiment: str) -> list[Record]:
    names = dict.fromkeys(p.run for p in plan.points if p.experiment == experiment)
    return [plan.runs[run] for run in names]


def _flops(runs: Iterable[Record]) -> int:
    return sum(run.flops for run in runs)


def _hours(experiment: str, store: RunStore) -> tuple[int, float]:
    """Return the number of done runs in an experiment's newest plan, and their device hours."""
    points = newest(store.outputs)[experiment]["points"]
    runs = {point["run"] for point in points if point["experiment"] == experiment}
    done = [run for run in runs if store.run(run).result()]
    return len(done), hours(store, done)
