"""A sweep that decides: rounds of seeds until every claim has an answer or nothing pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from sweeper.plan.plan import Plan, Rounds
from sweeper.plan.seeds import with_seeds
from sweeper.results.collect import Records, before_training
from sweeper.results.judge import check_decidable, rests_on, verdicts_on, wanted
from sweeper.results.points import measures
from sweeper.results.summary import print_costs
from sweeper.results.table import Table
from sweeper.results.verdict import Decision, Verdict
from sweeper.run.backend import device_hours
from sweeper.store.errors import invalid_value, sanitize
from sweeper.store.files import canonical
from sweeper.store.numbers import plural
from sweeper.store.runs import RunStore
from sweeper.train import Executor

_EVERY = 10**6  # runs: no limit on a purchase


@dataclass(frozen=True)
class Progress:
    """The verdicts on the finished runs of a plan, and their cost."""

    judged: Sequence[tuple[Table, Sequence[Verdict]]]  # by experiment
    spent_h: float  # device hours of the runs
    until: Sequence[str]  # the claims to decide; all if empty

    @classmethod
    def of(
        cls, plan: Plan, records: Records, until: Sequence[str] = (), before: Rounds = ()
    ) -> Progress:
        """Judge the finished runs of a plan, and no other run of its folder.

        `before`: the earlier rounds, which were judged, too.
        """
        tables = records.tables(plan.as_data(before))
        seconds = {str(row["run"]): row.get("seconds") or 0.0 for t in tables for row in t.rows}
        spent = sum(device_hours(plan.runs[run].config, took) for run, took in seconds.items())
        return cls([(table, verdicts_on(table)) for table in tables], spent, until)

    @property
    def verdicts(self) -> list[tuple[str, Verdict]]:
        """The verdicts that the points can decide and the user asks for, with their experiments."""
        every = [(table.name, one) for table, found in self.judged for one in found]
        return [(name, one) for name, one in every if one.numbers and self._asks(one.claim)]

    @property
    def undecided(self) -> Counter[str]:
        """The undecided claims, each with the number of its measures that are undecided."""
        return Counter(
            f"{name}/{verdict.claim}" if len(self.judged) > 1 else verdict.claim
            for name, verdict in self.verdicts
            if verdict.verdict is Decision.UNDECIDED
        )

    def seeds(self, most: int, runs: int | None = None) -> dict[str, int]:
        """Return how many seeds points should have next, by the run of a point's first seed.

        Args:
            most: seeds that a point may have.
            runs: about this many runs are bought; each experiment gets a share for the points that
                it needs. None buys as many as the answers are expected to take.
        """
        every = [wanted(table, most, _EVERY, self._asks) for table, _ in self.judged]
        points, before = sum(map(len, every)), 0
        found: dict[str, int] = {}
        for (table, _), more in zip(self.judged, every, strict=True):
            after = before + len(more)
            if runs is not None and more:
                share = runs * after // points - runs * before // points
                more = wanted(table, most, share, self._asks) if share else {}
            before = after
            verdicts = [verdict for name, verdict in self.verdicts if name == table.name]
            for run, seeds in _by_first_run(table, verdicts, more).items():
                found[run] = max(found.get(run, 0), seeds)
        return found

    def _asks(self, claim: str) -> bool:
        return not self.until or claim in self.until

    def points(self) -> set[str]:
        """Return the points that claims rest on, each by the run of its first seed."""
        found: set[str] = set()
        for table, verdicts in self.judged:
            points = dict.fromkeys(rests_on(table, self._asks), 0)
            found |= _by_first_run(table, verdicts, points).keys()
        return found

    def as_data(self) -> dict[str, Any]:
        """Return the verdicts as plain data for a plan."""
        return {
            table.name: [
                {
                    "claim": verdict.claim,
                    "measure": verdict.measure,
                    "answer": str(verdict.verdict),
                    "contrasts": [
                        {end: found[end] for end in ("value", "low", "high")}
                        for found in verdict.numbers.get("contrasts", [])
                    ],
                }
                for verdict in verdicts
            ]
            for table, verdicts in self.judged
        }


def _by_first_run(
    table: Table, verdicts: Sequence[Verdict], more: Mapping[tuple[str, str], int]
) -> dict[str, int]:
    """Seeds in all, by the run of a point's first, of seeds to add by (arm, point).

    Where models are fine-tuned, on the tasks alone that something undecided is measured on.
    """
    tuned = table.experiment.get("finetune") or {}
    without = {one.measure for one in verdicts if one.verdict is Decision.UNDECIDED}
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


def check_claims(plan: Plan, until: Sequence[str] = ()) -> None:
    """Raise UserError for claims that the points of the plan cannot decide.

    `until`: the claims to decide, `hydra.sweeper.until`; UserError for one that the plan lacks.
    """
    configs = {run.id: run.config for run in plan.runs.values()}
    for table in before_training(plan.as_data(), configs):
        check_decidable(table)
    for claim in until:
        if claim not in plan.claims:
            expected = f"claims of what is swept ({', '.join(plan.claims) or 'it makes none'})"
            remedy = "correct it or leave it out"
            raise invalid_value("hydra.sweeper.until", claim, expected, remedy)


@dataclass(frozen=True)
class Round:
    """A plan to train next."""

    plan: Plan
    seeds: Mapping[str, int]  # of each point, by the run of its first seed
    hours: Mapping[str, float]  # expected device hours, by run
    before: Rounds  # purchases and verdicts of the earlier rounds, as plain data
    spent_h: float  # device hours of the earlier rounds
    purpose: str  # for people


def decide(executor: Executor, first: Plan, estimate: Mapping[str, float]) -> bool:
    """Train rounds until every claim has an answer or none pays; return whether all runs are done.

    Args:
        first: the plan with the experiments' own seeds.
        estimate: expected seconds of training of its runs that are not done.

    Raises:
        UserError: the first round is expected to exceed the budget, or an arm starts from runs of
            its parent and has seeds between those.
    """
    for experiment in first.experiments.values():
        for arm in experiment.arms.values():
            parent, own = experiment.arms.get(arm.parent or ""), arm.seeds
            theirs = sorted((parent and parent.seeds) or experiment.seeds)
            if parent and own and sorted(own) != theirs[: len(own)]:
                key = f"experiment.arms.{arm.name}.seeds"
                expected = (
                    f"the first seeds of its parent {arm.parent} ({', '.join(map(str, theirs))})"
                )
                remedy = "rounds add seeds in their order; leave it out"
                raise invalid_value(key, own, expected, remedy)
    hours = {r: device_hours(first.runs[r].config, seconds) for r, seconds in estimate.items()}
    budget, cost = executor.options.budget_device_hours, sum(hours.values(), executor.chosen_h)
    # Only the first round checks the budget against an estimate, so that repeating the command
    # gives the same rounds.
    if len(hours) == len(first.runs) and not _within(budget, cost):
        expected = f"at least {cost:.2g}, the expected cost of the first round"
        remedy = "raise it, or sweep fewer points"
        raise invalid_value("hydra.sweeper.budget_device_hours", budget, expected, remedy)
    now = Round(first, {}, hours, [], 0.0, "the seeds of the experiment")
    records = Records(executor.store)
    while True:
        if left := executor.left(now.plan):
            executor.refuse_mixing(now.plan)
            _train(executor, now, left)
        progress = Progress.of(now.plan, records, executor.options.until, now.before)
        following = None if executor.tripped else _next(executor, now, progress)
        if following is None:
            break
        now = following
    executor.freeze(now.plan, {}, now.before)
    executor.console.print(Text("\n".join(_summary(executor, now, progress))), soft_wrap=True)
    return executor.done(now.plan)


def pilot(executor: Executor, plan: Plan) -> bool:
    """Train `hydra.sweeper.pilot` seeds of the points that claims rest on; print expected costs.

    Return whether they are done.
    """
    seeds, until = executor.options.pilot or 0, executor.options.until
    points = Progress.of(plan, _records(executor.store, plan), until).points()
    whole = with_seeds(plan, dict.fromkeys(points, seeds))
    needed = {run for ids in _by_point(whole) if ids[0] in points for run in ids[:seeds]}
    while parents := whole.runs.keys() & {whole.runs[run].parent for run in needed} - needed:
        needed |= parents
    left = [run for run in executor.left(whole) if run in needed]
    throughput = executor.throughput(whole)
    estimate = {run: sum(throughput.expected(whole.runs[run])) for run in left}
    words = f"pilot, {plural(len(left), 'run')}: {seeds} seeds of the points that claims rest on"
    executor.console.print(Text(words), soft_wrap=True)
    done = executor.train(whole, left, estimate=estimate)
    show_prices(executor.console, executor.store, whole, {})
    return done


def show_prices(
    console: Console, store: RunStore, plan: Plan, estimate: Mapping[str, float]
) -> None:
    """Print the expected cost of deciding each claim; `estimate` as in `decide`."""
    tables = _records(store, plan).tables({**plan.as_data(), "estimate": estimate})
    print_costs(console, store, tables)


def _records(store: RunStore, plan: Plan) -> Records:
    """Load the existing records of this plan's runs; none need exist yet."""
    return Records(store, {run.id: run.config for run in plan.runs.values()})


def _next(executor: Executor, last: Round, progress: Progress) -> Round | None:
    """Return the round that narrows the undecided claims most for its cost, within the budget.

    It has as many runs as train at once, or one for each needed point if that is more; fewer if the
    budget demands it. None if no round would decide anything or be affordable.
    """
    options = executor.options
    needed = progress.seeds(options.max_seeds)
    throughput = executor.throughput(last.plan)
    spent_h = executor.chosen_h + progress.spent_h
    # A pre-training counts once, whatever it is fine-tuned on.
    points = len({last.plan.runs[run].parent or run for run in needed})
    for runs in range(max(executor.backend.slots, points) if needed else 0, 0, -1):
        bought = progress.seeds(options.max_seeds, runs)
        seeds = {**last.seeds, **bought}
        plan = with_seeds(last.plan, seeds)
        new = [plan.runs[run] for run in plan.runs if run not in last.plan.runs]
        hours = {run.id: device_hours(run.config, throughput.expected(run).training) for run in new}
        # Seeds that an experiment lacks may be runs that another one has.
        more = len(plan.points) > len(last.plan.points)
        if more and _within(options.budget_device_hours, spent_h + sum(hours.values())):
            bought_before = {
                "runs": len(last.plan.runs),
                "seeds": dict(last.seeds),
                "seeds_judged": {ids[0]: len(ids) for ids in _by_point(last.plan)},
                "device_hours": progress.spent_h,
                "verdicts": progress.as_data(),
            }
            before = [*last.before, bought_before]
            return Round(plan, seeds, hours, before, progress.spent_h, _in_words(progress))
    return None


def _within(budget: float | None, hours: float) -> bool:
    return budget is None or hours <= budget


def _in_words(progress: Progress) -> str:
    undecided = progress.undecided
    claims = ", ".join(f"{one} by {n} measures" if n > 1 else one for one, n in undecided.items())
    return sanitize(f"{undecided.total()} of {len(progress.verdicts)} undecided: {claims}")


def _train(executor: Executor, now: Round, left: Sequence[str]) -> None:
    """Train a round; show its purpose and its cost meanwhile."""
    head = f"round {len(now.before) + 1}, {plural(len(now.hours), 'run')}: {now.purpose}"
    executor.console.print(Text(head), soft_wrap=True)
    budget = executor.options.budget_device_hours
    of = "" if budget is None else f" of {budget:g}"
    devices = max(device_hours(now.plan.runs[run].config, 1.0) for run in left)

    def about(seconds: float) -> str:
        spent_h = executor.chosen_h + now.spent_h + seconds * devices
        spent = f"{spent_h:.2g}{of} device hours spent"
        return f"{head}\n{spent}; this round is expected to take {sum(now.hours.values()):.2g}"

    estimate = {
        run: hours / device_hours(now.plan.runs[run].config, 1.0)
        for run, hours in now.hours.items()
    }
    executor.train(now.plan, left, estimate=estimate, rounds=now.before, about=about)


def _summary(executor: Executor, last: Round, progress: Progress) -> list[str]:
    """Return the answers, why no round follows, the cost, and the runs that were not needed."""
    rounds, runs = len(last.before) + 1, len(last.plan.runs)
    took = (
        f"after {plural(rounds, 'round')}, {plural(runs, 'run')}, "
        f"{progress.spent_h:.2g} device hours"
    )
    if progress.undecided:
        options, why = executor.options, executor.tripped
        if not why and progress.seeds(options.max_seeds):
            budget = f"hydra.sweeper.budget_device_hours={options.budget_device_hours:g}"
            why = f"{budget} pays for no more"
        elif not why:
            why = f"no seeds within hydra.sweeper.max_seeds={options.max_seeds} decide more"
        lines = [f"{_in_words(progress)}, {took}: {why}."]
    else:
        of = " asked about" if executor.options.until else ""
        claims = len(progress.verdicts)
        who = f"the claim{of} has" if claims == 1 else f"all {claims} claims{of} have"
        lines = [f"{who} an answer {took}."]
    of_point = _by_point(last.plan)
    most = max(map(len, of_point))
    even = len(with_seeds(last.plan, {ids[0]: most for ids in of_point}).runs)
    if even > runs:
        lines.append(
            f"with {most} seeds at every point, the most that any has, it would have been "
            f"{even} runs, {even - runs} more."
        )
    return lines


def _by_point(plan: Plan) -> list[list[str]]:
    """Return the runs of each point, seed by seed."""
    found: dict[str, list[str]] = {}
    for point in plan.points:
        where = canonical([point.experiment, point.arm, point.task, point.values])
        found.setdefault(where, []).append(point.run)
    return list(found.values())
