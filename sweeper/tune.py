"""Tuning: trials choose values for every arm before the judged runs are planned.

A trial is an ordinary run of an experiment of its own, <experiment>_trials: it is planned, shown,
collected and drawn like any other, and enters no mean of the experiment that it serves. Choices
follow from the validation metrics of finished trials alone, so a killed sweep that is repeated
chooses the same values and judges the same runs.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rich.text import Text

from sweeper.plan.compose import RunTemplate
from sweeper.plan.experiment import SUFFIX, Experiment, Per, Tune, at_end, beyond
from sweeper.plan.facts import Facts, Invalid
from sweeper.plan.plan import Chosen, Configuration, Plan, PlannedRun
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
from sweeper.store.runs import RunStore
from sweeper.train import Executor


def trials(
    plan: Plan, tunes: Mapping[str, Tune], facts: Facts, finalists: Collection[str] = ()
) -> Plan:
    """Return the plan of all trials: one experiment for each that is tuned.

    `finalists`: the arms and settings, as text, that are tried with all seeds. Raise Invalid for a
    value that no run can have.
    """
    experiments, configurations, texts = {}, {}, {}
    for name, tune in tunes.items():
        own, judged = name + SUFFIX, plan.experiments[name]
        experiments[own] = Experiment(
            name=own,
            title=f"{judged.title}: trials",
            metric=tune.by,
            arms={key: replace(arm, seeds=[], metric=None) for key, arm in judged.arms.items()},
            x=next(iter(tune.grid)),
            figure="choices",
            seeds=list(tune.seeds[:1]),
            tune=tune,
        )
        configurations[own] = _points(plan.configurations[name], tune, facts, finalists)
        texts[own] = plan.texts[name]
    made = replace(plan, experiments=experiments, texts=texts, configurations=configurations)
    return with_seeds(made, {})


def shared_by(point: Configuration, tune: Tune) -> str:
    """Return what points with one choice have in common, as text."""
    of = {
        Per.arm: None,
        Per.size: point.size["params_total"],
        Per.point: dict(point.values),
    }
    return canonical([point.arm.name, of[tune.per]])


def middles(points: Iterable[Configuration], tune: Tune) -> dict[str, Configuration]:
    """Return the point that is tried for all that share its choice, by what they share."""
    groups: dict[str, list[Configuration]] = {}
    for point in points:
        groups.setdefault(shared_by(point, tune), []).append(point)
    return {shared: group[len(group) // 2] for shared, group in groups.items()}


def chosen_into(
    points: Iterable[Configuration], chosen: Mapping[str, Sequence[Chosen]], tune: Tune
) -> Iterator[Configuration]:
    """Yield points with the values chosen for them, each followed by its alternatives.

    `chosen` is by the arm and setting tried; the first of each is the choice.
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
    points: Iterable[Configuration], tune: Tune, facts: Facts, finalists: Collection[str]
) -> list[Configuration]:
    """Return every combination of values at the middle points, with its size."""
    found = []
    for point in middles(points, tune).values():
        for values in itertools.product(*tune.grid.values()):
            tried = dict(zip(tune.grid, values, strict=True))
            config = RunTemplate(point.config).run(tried)
            trainer = config["trainer"]  # a run that is never validated is at its end
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
            expected = "keys that leave the size of a model as it is"
            raise invalid_value(
                "experiment.tune.grid", list(tune.grid), expected, "leave out the others"
            )
        made.append(replace(point, size=size))
    return made


@dataclass
class Tuning:
    """The tuning of a plan."""

    plan: Plan  # of the judged runs, with the values in the configs
    facts: Facts
    store: RunStore
    tunes: dict[str, Tune]  # how each experiment is tuned; ranges may have grown
    trials: Plan
    finalists: set[str] = field(default_factory=set)  # with all seeds, as `trials` takes them
    judged: Plan | None = None  # with the chosen values; None until every trial is settled

    @classmethod
    def of(cls, plan: Plan, process: SizeServer, store: RunStore) -> Tuning:
        """Read the finished trials of a plan that tunes; UserError if a value is invalid."""
        tunes = {name: one.tune for name, one in plan.experiments.items() if one.tune}
        for tune in tunes.values():
            direction(tune.by)  # no trial starts for a metric that cannot choose
        facts = Facts(process, plan.outputs / "cache" / "facts.json")
        made = cls(plan, facts, store, tunes, trials(plan, tunes, facts))
        made.advance()
        facts.save()
        return made

    @property
    def whole(self) -> Plan:
        """The trials and the judged runs, as far as these are known, as one plan."""
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
        """Read the trials, and plan those that follow from them; return whether all is chosen.

        A range grows where the best value is at its end; then the two best values of each setting
        are tried with all seeds. Raise UserError if all trials of a setting diverged.
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
                self.finalists |= finalists  # one that diverged keeps its seeds, and so its rank
                self.trials = trials(self.plan, self.tunes, self.facts, self.finalists)
                continue
            found = dict(zip(names, map(choices, tables), strict=True))
            if self._grow({name: [one.values for one in own] for name, own in found.items()}):
                continue
            self.judged = self._judged(found)
            return True

    def _grow(self, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> bool:
        """Grow ranges with one of these values at an end by a step; return whether any has grown.

        All arms try the same values.
        """
        wanted = []
        for name, tune in self.tunes.items():
            first = self.plan.experiments[name].tune
            assert first is not None
            for key, values in tune.grid.items():
                best = dict.fromkeys(one[key] for one in found[name])
                further = [value for one in best if (value := beyond(values, one)) is not None]
                left = len(first.grid[key]) + first.grow - len(values)
                wanted += [(name, key, value) for value in further[:left]]
        grown = False
        for name, key, value in wanted:
            tune = self.tunes[name]
            values = sorted([*tune.grid[key], value])
            wider = {**self.tunes, name: replace(tune, grid={**tune.grid, key: values})}
            try:
                self.trials = trials(self.plan, wider, self.facts, self.finalists)
            except Invalid:  # no run can have this value
                continue
            self.tunes, grown = wider, True
        return grown

    def _judged(self, found: Mapping[str, Sequence[Choice]]) -> Plan:
        """Return the plan with the chosen values."""
        experiments, configurations = dict(self.plan.experiments), dict(self.plan.configurations)
        described: dict[str, list[dict[str, Any]]] = {}
        for name, tune in self.tunes.items():
            experiments[name] = replace(experiments[name], tune=tune)
            chosen = {
                canonical([one.arm, one.setting]): [
                    Chosen(values, one.trials) for values in (one.values, one.alternative) if values
                ]
                for one in found[name]
            }
            configurations[name] = list(chosen_into(configurations[name], chosen, tune))
            described[name] = []
            for one in found[name]:
                ends = [key for key, known in tune.grid.items() if at_end(known, one.values[key])]
                described[name].append(asdict(one) | {"at_end": ends})
        made = replace(
            self.plan, experiments=experiments, configurations=configurations, tuning=described
        )
        return with_seeds(made, {})


def tune(executor: Executor, tuning: Tuning) -> Plan | None:
    """Train trials until all is chosen; return the plan to judge, None if trials failed.

    Raises:
        UserError: the data cannot be built, or all trials of a setting diverged.
        SystemExit: stopped by a signal; running jobs were saved.
    """
    if executor.options.retrain:
        again = executor.other_code(tuning.trials).again
        _train(executor, tuning, [run for run in tuning.trials.runs if run in again])
    while not tuning.advance():
        runs = {run: executor.store.run(run) for run in executor.left(tuning.trials)}
        left = [run for run in runs if runs[run].status().cause is not Cause.NAN]
        if not left or executor.tripped:
            missing = "were left out" if executor.tripped else "failed"
            words = f"Trials {missing}, so nothing is chosen and nothing judged. Repeat the command"
            executor.console.print(Text(f"{words} to try them again.", style="bold red"))
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
    estimate = {run: throughput.expected(tuning.trials.runs[run]).training for run in left}
    executor.train(tuning.trials, left, estimate=estimate)


def budgets(tuning: Tuning) -> Iterator[str]:
    """Yield a sentence on the cost of tuning each experiment: its trials by arm, their share."""
    planned = trials(tuning.plan, tuning.tunes, tuning.facts)
    for name, one in tuning.tunes.items():
        points = Counter(point.arm.name for point in planned.configurations[name + SUFFIX])
        values, further = math.prod(map(len, one.grid.values())), FINALISTS * (len(one.seeds) - 1)
        arms = ", ".join(f"{arm} {count // values}" for arm, count in points.items())
        ranges = [key for key, own in one.grid.items() if {*map(type, own)} <= {int, float}]
        first = tuning.plan.experiments[name].tune
        assert first is not None
        room = math.prod(len(first.grid[key]) + first.grow * (key in ranges) for key in one.grid)
        of_one = _flops(planned, name + SUFFIX) / max(_flops(tuning.plan, name), 1) / values
        number = len(_runs(planned, name + SUFFIX)) // values * (values + further)
        grown = f", at most {of_one * (room + further):.0%} if ranges grow" if room > values else ""
        above = "" if tuning.judged else " (above: those known so far)"
        share = f"{of_one * (values + further):.0%} of the FLOPs of the judged runs{grown}"
        yield (
            f"{name}: {', '.join(one.grid)} is chosen first, among {values} by {one.by}, with "
            f"{values + further} trials a choice in every arm (choices: {arms}): {number} trials "
            f"in all{above}, {share}."
        )


def spent(tuning: Tuning, store: RunStore) -> Iterator[str]:
    """Yield the measured cost of tuning each experiment, beside that of its judged runs."""
    for name in tuning.tunes if tuning.judged else ():
        trials, took = _hours(name + SUFFIX, store)
        _, own = _hours(name, store)
        share = f", {took / own:.0%} of the {own:.2g} of the judged runs" if own else ""
        yield f"{name}: tuning took {trials} trials, {took:.2g} device hours{share}."


def _runs(plan: Plan, experiment: str) -> list[PlannedRun]:
    names = dict.fromkeys(p.run for p in plan.points if p.experiment == experiment)
    return [plan.runs[run] for run in names]


def _flops(plan: Plan, experiment: str) -> int:
    return sum(run.flops for run in _runs(plan, experiment))


def _hours(experiment: str, store: RunStore) -> tuple[int, float]:
    """Return the number of runs of its newest plan that are done, and their device hours."""
    points = newest(store.outputs)[experiment]["points"]
    runs = {point["run"] for point in points if point["experiment"] == experiment}
    done = [run for run in runs if store.run(run).result()]
    return len(done), hours(store, done)
