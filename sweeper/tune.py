"""Every arm at its best: trials are planned, trained and read before what is judged is planned.

A trial is an ordinary run, a point of an experiment of its own, <experiment>_trials: it is planned,
shown, collected and drawn like any other, and is in no mean of the experiment that it serves. What
is chosen follows from the validation metrics of finished trials and from nothing else: a sweep that
was killed and is typed again chooses the same, and judges the same runs.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.text import Text

from sweeper.plan.experiment import Tune, beyond
from sweeper.plan.plan import Chosen, Plan, Run
from sweeper.plan.planner import with_seeds
from sweeper.plan.sizes import Invalid, Sizes
from sweeper.plan.trials import SUFFIX, chosen_into, trials
from sweeper.results.choices import Choice, choices, settled
from sweeper.results.collect import Records
from sweeper.results.points import tuned_in_words
from sweeper.run.failures import hours
from sweeper.size_server import SizeServer
from sweeper.store.attempts import Cause
from sweeper.store.files import canonical
from sweeper.store.plans import newest
from sweeper.store.runs import RunStore
from sweeper.train import Executor, as_data, freeze


@dataclass
class Tuning:
    """The tuning of a plan.

    Attributes:
        plan: what is to be judged, with the values that stand in the configs.
        tunes: by experiment, how it is tuned, ranges as far as they have grown.
        trials: the plan of the trials.
        judged: the plan with what was chosen; None until every trial is settled.
    """

    plan: Plan
    sizes: Sizes
    store: RunStore
    tunes: dict[str, Tune]
    trials: Plan
    judged: Plan | None = None

    @classmethod
    def of(cls, plan: Plan, process: SizeServer, store: RunStore) -> Tuning:
        """As far as finished trials tell; a plan without any is judged as it is.

        Raises:
            UserError: a value that no run can have.
        """
        asked = {name: one.tune for name, one in plan.experiments.items()}
        tunes = {name: tune for name, tune in asked.items() if tune}
        sizes = Sizes(process, plan.outputs / "cache" / "sizes.json")
        made = cls(plan, sizes, store, tunes, trials(plan, tunes, sizes))
        if tunes:
            made.advance()
        else:
            made.judged = plan
        sizes.save()
        return made

    @property
    def whole(self) -> Plan:
        """The trials, and what is judged as far as that is known, as one plan."""
        if not self.tunes:
            return self.plan
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
        """Read the trials; ranges grow where the best lies at an end. Whether all is chosen.

        Raises:
            UserError: nothing can be chosen, since all trials of a setting diverged.
        """
        while True:
            tables = Records(self.store).tables(json.loads(json.dumps(as_data(self.trials))))
            if not all(map(settled, tables)):
                return False
            found = {table.name.removesuffix(SUFFIX): choices(table) for table in tables}
            if not self._grow(found):
                self.judged = self._judged(found)
                return True

    def _grow(self, found: Mapping[str, Sequence[Choice]]) -> bool:
        """Whether a range has grown: by one step, for all arms alike."""
        grown = False
        for name, key, value in self._wanted(found):
            tune = self.tunes[name]
            values = sorted([*tune.grid[key], value])
            wider = {**self.tunes, name: replace(tune, grid={**tune.grid, key: values})}
            try:
                self.trials = trials(self.plan, wider, self.sizes)
            except Invalid:  # no run can have this value
                continue
            self.tunes, grown = wider, True
        return grown

    def _wanted(self, found: Mapping[str, Sequence[Choice]]) -> Iterator[tuple[str, str, Any]]:
        """Values beyond the ends at which something chosen lies, as far as ranges may grow."""
        for name, tune in list(self.tunes.items()):
            first = self.plan.experiments[name].tune
            assert first is not None
            for key, values in tune.grid.items():
                best = dict.fromkeys(choice.values[key] for choice in found[name])
                further = [value for one in best if (value := beyond(values, one)) is not None]
                left = len(first.grid[key]) + first.grow - len(values)
                yield from ((name, key, value) for value in further[:left])

    def _judged(self, found: Mapping[str, Sequence[Choice]]) -> Plan:
        """The plan with the values that were chosen."""
        experiments, configurations = dict(self.plan.experiments), dict(self.plan.configurations)
        told = {}
        for name, tune in self.tunes.items():
            experiments[name] = replace(experiments[name], tune=tune)
            chosen = {
                canonical([one.arm, one.setting]): Chosen(one.values, one.trials)
                for one in found[name]
            }
            configurations[name] = list(chosen_into(configurations[name], chosen, tune))
            told[name] = [asdict(one) | {"at_end": _at_end(tune, one)} for one in found[name]]
        made = replace(
            self.plan, experiments=experiments, configurations=configurations, tuning=told
        )
        return with_seeds(made, {})


def tune(executor: Executor, tuning: Tuning) -> Plan | None:
    """Train trials until all is chosen; the plan of what is judged, None if trials failed.

    Raises:
        UserError: the data cannot be built, or all trials of a setting diverged.
        SystemExit: asked to stop; what ran was saved.
    """
    if not tuning.tunes:
        return tuning.judged
    while not tuning.advance():
        runs = {run: executor.store.run(run) for run in executor.left(tuning.trials)}
        left = [run for run in runs if runs[run].status().cause is not Cause.NAN]
        if not left or executor.tripped:
            missing = "are left out" if executor.tripped else "failed"
            told = f"Trials {missing}, so nothing is chosen and nothing judged. The same command"
            executor.console.print(Text(f"{told} again tries them again.", style="bold red"))
            return None
        throughput = executor.throughput(tuning.trials)
        estimate = {run: throughput.expected(tuning.trials.runs[run]).training for run in left}
        executor.train(tuning.trials, left, estimate=estimate)
    freeze(tuning.trials, executor.store, {})
    executor.chosen_h = hours(executor.store, tuning.trials.runs)
    assert tuning.judged is not None
    for name, described in as_data(tuning.judged)["experiments"].items():
        for line in tuned_in_words(described):
            executor.console.print(Text(f"{name}: {line}"), soft_wrap=True)
    return tuning.judged


def budgets(tuning: Tuning) -> Iterator[str]:
    """Yield a sentence on the cost of tuning each experiment: its trials by arm, their share."""
    planned = trials(tuning.plan, tuning.tunes, tuning.sizes)
    for name, one in tuning.tunes.items():
        points = Counter(point.arm.name for point in planned.configurations[name + SUFFIX])
        values = math.prod(map(len, one.grid.values()))
        arms = ", ".join(f"{arm} {count // values}" for arm, count in points.items())
        first = tuning.plan.experiments[name].tune
        assert first is not None
        room = math.prod(len(first.grid[key]) + first.grow for key in one.grid)
        share = _flops(planned, name + SUFFIX) / max(_flops(tuning.plan, name), 1)
        most = share * room / values
        yield (
            f"{name}: {', '.join(one.grid)} is chosen first, among {values} by {one.by}, with "
            f"{values * len(one.seeds)} trials a choice in every arm ({arms} choices): "
            f"{len(_of(planned, name + SUFFIX))} trials in all, "
            f"{share:.0%} of the FLOPs of what is judged"
            + (f", at most {most:.0%} if ranges grow." if room > values else ".")
        )


def spent(tuning: Tuning, store: RunStore) -> Iterator[str]:
    """What the tuning of each experiment took beside what is judged, in words, as measured."""
    for name in tuning.tunes if tuning.judged else ():
        trials, took = _hours(name + SUFFIX, store)
        _, own = _hours(name, store)
        share = f", {took / own:.0%} of the {own:.2g} of what is judged" if own else ""
        yield f"{name}: tuning took {trials} trials, {took:.2g} device hours{share}."


def _of(plan: Plan, experiment: str) -> list[Run]:
    names = dict.fromkeys(p.run for p in plan.points if p.experiment == experiment)
    return [plan.runs[run] for run in names]


def _flops(plan: Plan, experiment: str) -> int:
    return sum(run.flops for run in _of(plan, experiment))


def _hours(experiment: str, store: RunStore) -> tuple[int, float]:
    """How many runs of its newest plan are done, and their device hours."""
    points = newest(store.outputs)[experiment]["points"]
    runs = {point["run"] for point in points if point["experiment"] == experiment}
    done = [run for run in runs if store.run(run).result()]
    return len(done), hours(store, done)


def _at_end(tune: Tune, choice: Choice) -> list[str]:
    return [key for key, values in tune.grid.items() if beyond(values, choice.values[key])]
