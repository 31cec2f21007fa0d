"""Where an experiment stands: what its runs have cost, what they say, what would say more."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from sweeper.plan.plan import Plan
from sweeper.plan.planner import with_seeds
from sweeper.results.claims.evidence.verdict import Answer, Verdict
from sweeper.results.collect import Records, before_training
from sweeper.results.judge import check_decidable, rests_on, verdicts_on, wanted
from sweeper.results.points import measures
from sweeper.results.prices import print_prices
from sweeper.results.table import Table
from sweeper.run.backend import device_hours
from sweeper.store.errors import invalid_value, sanitize
from sweeper.store.files import canonical
from sweeper.train import Executor, as_data, freeze

_EVERY = 10**6  # runs: all that answers are expected to take


@dataclass(frozen=True)
class Standing:
    """What the finished runs of a plan say.

    Attributes:
        judged: by experiment, its table and the verdicts on it.
        spent_h: device hours of the runs.
        until: the claims that are to be decided; all, if none is named.
    """

    judged: Mapping[str, tuple[Table, Sequence[Verdict]]]
    spent_h: float
    until: Sequence[str]

    @classmethod
    def of(cls, plan: Plan, records: Records, until: Sequence[str] = ()) -> Standing:
        """What the runs of a plan say that are finished, and no other run of that folder."""
        tables = records.tables(json.loads(json.dumps(as_data(plan))))  # as from disk
        seconds = {str(row["run"]): row.get("seconds") or 0.0 for t in tables for row in t.rows}
        spent = sum(device_hours(plan.runs[run].config, took) for run, took in seconds.items())
        return cls({table.name: (table, verdicts_on(table)) for table in tables}, spent, until)

    @property
    def verdicts(self) -> list[tuple[str, Verdict]]:
        """Those to be had, by experiment: not on claims that points cannot decide, or not asked."""
        every = [(name, one) for name, (_, found) in self.judged.items() for one in found]
        return [(name, one) for name, one in every if one.numbers and self._asks(one.claim)]

    @property
    def undecided(self) -> Counter[str]:
        """The claims without an answer, and by how many measures each has none."""
        return Counter(
            f"{name}/{verdict.claim}" if len(self.judged) > 1 else verdict.claim
            for name, verdict in self.verdicts
            if verdict.verdict is Answer.UNDECIDED
        )

    def seeds(self, most: int, runs: int | None = None) -> dict[str, int]:
        """How many seeds points should have next, by the run of a point's first; empty if none.

        None beyond `most`. At about `runs` runs at once, each experiment has a share for the points
        that it needs; of None as many as the answers are expected to take in all.
        """
        tables = {name: table for name, (table, _) in self.judged.items()}
        every = {name: wanted(table, most, _EVERY, self._asks) for name, table in tables.items()}
        points, before = sum(map(len, every.values())), 0
        found: dict[str, int] = {}
        for name, table in tables.items():
            after = before + len(every[name])
            if runs is not None and after > before:
                share = runs * after // points - runs * before // points
                every[name] = wanted(table, most, share, self._asks) if share else {}
            before = after
            verdicts = [verdict for of, verdict in self.verdicts if of == name]
            for run, seeds in _by_first_run(table, verdicts, every[name]).items():
                found[run] = max(found.get(run, 0), seeds)
        return found

    def _asks(self, claim: str) -> bool:
        return not self.until or claim in self.until

    def points(self) -> set[str]:
        """The points that claims rest on, each by the run of its first seed."""
        found: set[str] = set()
        for table, verdicts in self.judged.values():
            points = dict.fromkeys(rests_on(table, self._asks), 0)
            found |= _by_first_run(table, verdicts, points).keys()
        return found

    def described(self) -> dict[str, Any]:
        """The verdicts as plain data, for a plan to keep."""
        return {
            name: [
                {
                    "claim": verdict.claim,
                    "measure": verdict.measure,
                    "answer": str(verdict.verdict),
                    "contrasts": [
                        {end: _finite(found[end]) for end in ("value", "low", "high")}
                        for found in verdict.numbers.get("contrasts", [])
                    ],
                }
                for verdict in verdicts
            ]
            for name, (_, verdicts) in self.judged.items()
        }


def _by_first_run(
    table: Table, verdicts: Sequence[Verdict], more: Mapping[tuple[str, str], int]
) -> dict[str, int]:
    """Seeds in all, by the run of a point's first, of seeds to add by (arm, point).

    Where models are fine-tuned, on the tasks alone that something undecided is measured on.
    """
    tuned = table.experiment.get("finetune") or {}
    without = {one.measure for one in verdicts if one.verdict is Answer.UNDECIDED}
    tasks = {one.task for one in measures(table) if one.words in without}
    runs: dict[tuple[Any, ...], list[str]] = {}
    for row in table.rows:
        if not tuned or row["task"] in tasks:
            point = (row["arm"], row["point"] or "", row["task"])
            runs.setdefault(point, []).append(str(row["run"]))
    counts: dict[str, int] = {}
    for (arm, name, _), ids in runs.items():
        if (arm, name) in more:
            counts[ids[0]] = max(counts.get(ids[0], 0), len(ids) + more[arm, name])
    return counts


def check_claims(plan: Plan) -> None:
    """UserError for claims that the points of the plan cannot decide, whatever is measured."""
    configs = {run.id: run.config for run in plan.runs.values()}
    for table in before_training(as_data(plan), configs):
        check_decidable(table)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Round:
    """What is trained next, and why.

    Attributes:
        seeds: how many each point has, by the run of its first.
        hours: device hours that its runs are thought to take, by run.
        before: what the rounds before it bought and what stood after them, as plain data.
        spent_h: device hours of those.
        told: what it is for, in words.
    """

    plan: Plan
    seeds: Mapping[str, int]
    hours: Mapping[str, float]
    before: Sequence[Mapping[str, Any]]
    spent_h: float
    told: str


def decide(executor: Executor, first: Plan, estimate: Mapping[str, float]) -> bool:
    """Train rounds until every claim has an answer, or none can be had any more.

    Args:
        first: the plan of the experiments with the seeds that are their own.
        estimate: seconds that its runs are thought to train, those that are done left out.

    Returns:
        Whether every run is done.

    Raises:
        UserError: the first round alone is thought to take more than the budget, or there is no
            such claim as is to be decided.
    """
    _check_claims(executor.options.until, first)
    now, records = _first(executor, first, estimate), Records(executor.store)
    while True:
        if left := executor.left(now.plan):
            _train(executor, now, left)
        standing = Standing.of(now.plan, records, executor.options.until)
        following = None if executor.tripped else _next(executor, now, standing)
        if following is None:
            break
        now = following
    freeze(now.plan, executor.store, {}, now.before)
    executor.console.print(Text("\n".join(_ending(executor, now, standing))), soft_wrap=True)
    return executor.done(now.plan)


def pilot(executor: Executor, plan: Plan) -> bool:
    """Train `hydra.sweeper.pilot` seeds of the points that claims rest on; say what answers cost.

    Returns:
        Whether they are done.

    Raises:
        UserError: there is no such claim as is to be decided.
    """
    seeds, until = executor.options.pilot or 0, executor.options.until
    _check_claims(until, plan)
    points = Standing.of(plan, _records(executor, plan), until).points()
    whole = with_seeds(plan, dict.fromkeys(points, seeds))
    needed = {run for ids in _by_point(whole) if ids[0] in points for run in ids[:seeds]}
    parents = {whole.runs[run].parent for run in needed}
    left = [run for run in executor.left(whole) if run in needed | parents]
    throughput = executor.throughput(whole)
    estimate = {run: sum(throughput.expected(whole.runs[run])) for run in left}
    words = f"pilot, {len(left)} runs: {seeds} seeds of the points that claims rest on"
    executor.console.print(Text(words), soft_wrap=True)
    done = executor.train(whole, left, estimate=estimate)
    show_prices(executor, whole, {})
    return done


def show_prices(executor: Executor, plan: Plan, estimate: Mapping[str, float]) -> None:
    """Print what answers would cost; `estimate` as in `decide`."""
    tables = _records(executor, plan).tables({**as_data(plan), "estimate": estimate})
    print_prices(executor.console, executor.store, tables)


def _records(executor: Executor, plan: Plan) -> Records:
    """What there is of the runs of a plan of which nothing may be frozen yet."""
    return Records(executor.store, {run.id: run.config for run in plan.runs.values()})


def _check_claims(until: Sequence[str], plan: Plan) -> None:
    known = dict.fromkeys(claim for one in plan.experiments.values() for claim in one.claims)
    for claim in until:
        if claim not in known:
            expected = f"claims of what is swept ({', '.join(known) or 'it makes none'})"
            raise invalid_value(
                "hydra.sweeper.until", claim, expected, "correct it or leave it out"
            )


def _first(executor: Executor, plan: Plan, estimate: Mapping[str, float]) -> Round:
    hours = {run: device_hours(plan.runs[run].config, seconds) for run, seconds in estimate.items()}
    budget, cost = executor.options.budget_device_hours, sum(hours.values(), executor.chosen_h)
    # Later it is as it is: what a sweep that is typed again does hangs on no estimate.
    if len(hours) == len(plan.runs) and not _within(budget, cost):
        expected = f"at least {cost:.2g}, what the first round alone is thought to take"
        remedy = "raise it, or sweep fewer points"
        raise invalid_value("hydra.sweeper.budget_device_hours", budget, expected, remedy)
    return Round(plan, {}, hours, [], 0.0, "the seeds of the experiment")


def _next(executor: Executor, last: Round, standing: Standing) -> Round | None:
    """The round that narrows most for its cost what is undecided, within what is left to spend.

    It has as many runs as are trained at once, or one for each point that is needed where that is
    more; fewer where the budget asks for it. None if nothing would decide anything, or be paid for.
    """
    options = executor.options
    needed = standing.seeds(options.max_seeds)
    throughput = executor.throughput(last.plan)
    spent_h = executor.chosen_h + standing.spent_h
    points = len({last.plan.runs[run].parent or run for run in needed})  # whatever it is tuned on
    for runs in range(max(executor.backend.slots, points) if needed else 0, 0, -1):
        bought = standing.seeds(options.max_seeds, runs)
        seeds = {**last.seeds, **bought}
        plan = with_seeds(last.plan, seeds)
        new = [plan.runs[run] for run in plan.runs if run not in last.plan.runs]
        hours = {run.id: device_hours(run.config, throughput.expected(run).training) for run in new}
        if new and _within(options.budget_device_hours, spent_h + sum(hours.values())):
            before = [*last.before, _kept(last, standing)]
            return Round(plan, seeds, hours, before, standing.spent_h, _in_words(standing))
    return None


def _within(budget: float | None, hours: float) -> bool:
    return budget is None or hours <= budget


def _kept(last: Round, standing: Standing) -> dict[str, Any]:
    """What a round bought and what stood after it, for the plans that follow to hold."""
    return {
        "runs": len(last.plan.runs),
        "seeds": dict(last.seeds),
        "device_hours": standing.spent_h,
        "verdicts": standing.described(),
    }


def _in_words(standing: Standing) -> str:
    undecided = standing.undecided
    claims = ", ".join(f"{one} by {n} measures" if n > 1 else one for one, n in undecided.items())
    return sanitize(f"{undecided.total()} of {len(standing.verdicts)} undecided: {claims}")


def _train(executor: Executor, now: Round, left: Sequence[str]) -> None:
    """Train a round, saying meanwhile what it is for, what it has cost and what is left."""
    head = f"round {len(now.before) + 1}, {len(now.hours)} runs: {now.told}"
    executor.console.print(Text(head), soft_wrap=True)
    budget = executor.options.budget_device_hours
    of = "" if budget is None else f" of {budget:g}"
    devices = max(device_hours(now.plan.runs[run].config, 1.0) for run in left)

    def about(seconds: float) -> str:
        spent = f"{now.spent_h + seconds * devices:.2g}{of} device hours spent"
        return f"{head}\n{spent}; this round is thought to take {sum(now.hours.values()):.2g}"

    estimate = {
        run: hours / device_hours(now.plan.runs[run].config, 1.0)
        for run, hours in now.hours.items()
    }
    executor.train(now.plan, left, estimate=estimate, rounds=now.before, about=about)


def _ending(executor: Executor, last: Round, standing: Standing) -> list[str]:
    """What came of it: the answers, why it ended, what it cost, what was not trained."""
    rounds, runs = len(last.before) + 1, len(last.plan.runs)
    took = f"after {rounds} rounds, {runs} runs, {standing.spent_h:.2g} device hours"
    if standing.undecided:
        lines = [f"{_in_words(standing)}, {took}: {_why(executor, standing)}."]
    else:
        of = " asked about" if executor.options.until else ""
        lines = [f"all {len(standing.verdicts)} claims{of} have an answer {took}."]
    of_point = _by_point(last.plan)
    most = max(map(len, of_point))
    even = len(with_seeds(last.plan, {ids[0]: most for ids in of_point}).runs)
    if even > runs:
        lines.append(
            f"with {most} seeds at every point, as many as the neediest has, it would have been "
            f"{even} runs: {even - runs} were not needed."
        )
    return lines


def _by_point(plan: Plan) -> list[list[str]]:
    """The runs of each point, seed by seed."""
    found: dict[str, list[str]] = {}
    for point in plan.points:
        where = canonical([point.experiment, point.arm, point.task, point.values])
        found.setdefault(where, []).append(point.run)
    return list(found.values())


def _why(executor: Executor, standing: Standing) -> str:
    """Why there is no further round."""
    options = executor.options
    if executor.tripped:
        return executor.tripped
    if standing.seeds(options.max_seeds):
        return f"hydra.sweeper.budget_device_hours={options.budget_device_hours:g} pays for no more"
    return f"nothing in sight decides more within hydra.sweeper.max_seeds={options.max_seeds}"
