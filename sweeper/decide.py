"""A sweep that decides: rounds of seeds until every claim has an answer or nothing pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from sweeper.plan.plan import Plan, Rounds
from sweeper.plan.seeds import with_seeds
from sweeper.results.collect import Records, before_training
from sweeper.results.judge import check_decidable, next_seeds, verdicts_on
from sweeper.results.points import measures
from sweeper.results.table import Table
from sweeper.results.verdict import Decision, Verdict
from sweeper.run.backend import device_hours
from sweeper.run.options import SweepOptions
from sweeper.store.errors import invalid_value, sanitize
from sweeper.store.files import canonical
from sweeper.store.numbers import plural
from sweeper.train import Executor


@dataclass(frozen=True)
class Progress:
    """The verdicts on the finished runs of a plan, and their cost."""

    judged: Sequence[tuple[Table, Sequence[Verdict]]]  # by experiment
    spent_h: float  # device hours of the runs
    until: Sequence[str]  # the claims to decide; all if empty

    @classmethod
    def of(
        cls,
        plan: Plan,
        records: Records,
        until: Sequence[str] = (),
        before: Rounds = (),
    ) -> Progress:
        """Judge the finished runs of a plan, and no other run of its folder.

        `before`: the earlier rounds, which were judged, too.
        """
        tables = records.tables(plan.as_data(before))
        rows = [row for table in tables for row in table.rows]
        seconds = {str(row["run"]): row.get("seconds") or 0.0 for row in rows}
        judged = [(table, verdicts_on(table)) for table in tables]
        return cls(judged, _device_hours(plan, seconds), until)

    @property
    def verdicts(self) -> list[tuple[str, Verdict]]:
        """The verdicts that the points can decide and the user asks for, with their experiments."""
        return [
            (table.name, verdict)
            for table, verdicts in self.judged
            for verdict in verdicts
            if verdict.numbers and self._asks(verdict.claim)
        ]

    @property
    def undecided(self) -> Counter[str]:
        """The undecided claims, each with the number of its measures that are undecided."""
        return Counter(
            f"{name}/{verdict.claim}" if len(self.judged) > 1 else verdict.claim
            for name, verdict in self.verdicts
            if verdict.verdict is Decision.UNDECIDED
        )

    def seeds(self, most: int) -> dict[str, int]:
        """Return how many seeds points get next, none beyond `most`, by a point's first run."""
        found: dict[str, int] = {}
        for table, verdicts in self.judged:
            own = _by_first_run(table, verdicts, next_seeds(table, most, self._asks))
            found |= {run: max(found.get(run, 0), seeds) for run, seeds in own.items()}
        return found

    def _asks(self, claim: str) -> bool:
        return not self.until or claim in self.until

    def as_data(self) -> dict[str, Any]:
        """Return the verdicts as plain data for a plan."""
        return {
            table.name: [
                {
                    "claim": one.claim,
                    "measure": one.measure,
                    "answer": str(one.verdict),
                }
                for one in verdicts
            ]
            for table, verdicts in self.judged
        }


def _by_first_run(
    table: Table, verdicts: Sequence[Verdict], more: Mapping[tuple[str, str], int]
) -> dict[str, int]:
    """Convert seeds to add per (arm, point) into all seeds, keyed by the run of the first seed.

    Models are fine-tuned on the tasks of undecided claims only.
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
            expected = (
                f"claims of what is swept ({', '.join(plan.claims) or 'it makes none'})"
            )
            remedy = "correct it or leave it out"
            raise invalid_value("hydra.sweeper.until", claim, expected, remedy)


@dataclass(frozen=True)
class Round:
    """A plan to train next."""

    plan: Plan
    seeds: Mapping[str, int]  # of each point, by the run of its first seed
    seconds: Mapping[str, float]  # expected training of its new runs, by run
    before: Rounds  # seeds and verdicts of the earlier rounds, as plain data
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
    _check_seeds(first)
    options = executor.options
    cost = executor.chosen_h + _device_hours(first, estimate)
    # Only the first round checks the budget against an estimate, so that repeating the command
    # gives the same rounds.
    if len(estimate) == len(first.runs) and not _pays(options, cost):
        raise invalid_value(
            "hydra.sweeper.budget_device_hours",
            options.budget_device_hours,
            f"at least {cost:.2g}, the expected cost of the first round",
            "raise it, or sweep fewer points",
        )
    now = Round(first, {}, estimate, [], 0.0, "the seeds of the experiment")
    records = Records(executor.store)
    while True:
        if left := executor.left(now.plan):
            executor.refuse_mixing(now.plan)
            _train(executor, now, left)
        progress = Progress.of(now.plan, records, options.until, now.before)
        following = None if executor.tripped else _next(executor, now, progress)
        if following is None:
            break
        now = following
    executor.freeze(now.plan, {}, now.before)
    executor.console.print(Text(_summary(executor, now, progress)), soft_wrap=True)
    return executor.done(now.plan)


def _check_seeds(plan: Plan) -> None:
    """Raise UserError for an arm whose seeds are not the first ones of its parent."""
    for experiment in plan.experiments.values():
        for arm in experiment.arms.values():
            parent = experiment.arms.get(arm.parent or "")
            if not parent or not arm.seeds:
                continue
            theirs = sorted(parent.seeds or experiment.seeds)
            if sorted(arm.seeds) != theirs[: len(arm.seeds)]:
                listed = ", ".join(map(str, theirs))
                raise invalid_value(
                    f"experiment.arms.{arm.name}.seeds",
                    arm.seeds,
                    f"the first seeds of its parent {arm.parent} ({listed})",
                    "rounds add seeds in their order; leave it out",
                )


def _next(executor: Executor, last: Round, progress: Progress) -> Round | None:
    """Return the round that trains the next seed of every point of every undecided claim.

    None if no claim gets a seed, or if the budget does not pay for the round.
    """
    options = executor.options
    seeds = {**last.seeds, **progress.seeds(options.max_seeds)}
    plan = with_seeds(last.plan, seeds)
    throughput = executor.throughput(last.plan)
    new = [run for id, run in plan.runs.items() if id not in last.plan.runs]
    seconds = {run.id: throughput.expected(run).training for run in new}
    cost = executor.chosen_h + progress.spent_h + _device_hours(plan, seconds)
    # Seeds that an experiment lacks may be runs that another one has.
    more = len(plan.points) > len(last.plan.points)
    if not more or not _pays(options, cost):
        return None
    judged_before = {
        "seeds_judged": _seeds_judged(last.plan),
        "device_hours": progress.spent_h,
        "verdicts": progress.as_data(),
    }
    before = [*last.before, judged_before]
    return Round(plan, seeds, seconds, before, progress.spent_h, _in_words(progress))


def _pays(options: SweepOptions, hours: float) -> bool:
    budget = options.budget_device_hours
    return budget is None or hours <= budget


def _device_hours(plan: Plan, seconds: Mapping[str, float]) -> float:
    """Convert the training seconds of each run into device hours, and return their sum."""
    return sum(
        device_hours(plan.runs[run].config, took) for run, took in seconds.items()
    )


def _in_words(progress: Progress) -> str:
    undecided = progress.undecided
    claims = ", ".join(
        f"{one} by {n} measures" if n > 1 else one for one, n in undecided.items()
    )
    return sanitize(
        f"{undecided.total()} of {len(progress.verdicts)} undecided: {claims}"
    )


def _train(executor: Executor, now: Round, left: Sequence[str]) -> None:
    """Train a round, and show its purpose and cost while it trains."""
    runs = plural(len(now.seconds), "run")
    head = f"round {len(now.before) + 1}, {runs}: {now.purpose}"
    executor.console.print(Text(head), soft_wrap=True)
    budget = executor.options.budget_device_hours
    of = "" if budget is None else f" of {budget:g}"
    devices = max(device_hours(now.plan.runs[run].config, 1.0) for run in left)
    expected = _device_hours(now.plan, now.seconds)

    def about(seconds: float) -> str:
        spent_h = executor.chosen_h + now.spent_h + seconds * devices
        spent = f"{spent_h:.2g}{of} device hours spent"
        return f"{head}\n{spent}; this round is expected to take {expected:.2g}"

    executor.train(now.plan, left, estimate=now.seconds, rounds=now.before, about=about)


def _summary(executor: Executor, last: Round, progress: Progress) -> str:
    """Return the answers, the cost, and why no round follows."""
    options, claims = executor.options, len(progress.verdicts)
    rounds, runs = len(last.before) + 1, len(last.plan.runs)
    took = (
        f"after {plural(rounds, 'round')}, {plural(runs, 'run')}, "
        f"{progress.spent_h:.2g} device hours"
    )
    if not progress.undecided:
        of = " asked about" if options.until else ""
        who = f"the claim{of} has" if claims == 1 else f"all {claims} claims{of} have"
        return f"{who} an answer {took}."
    why = (
        f"no seeds within hydra.sweeper.max_seeds={options.max_seeds} are left to train"
    )
    if executor.tripped:
        why = executor.tripped
    elif progress.seeds(options.max_seeds):
        budget = f"{options.budget_device_hours:g}"
        why = f"hydra.sweeper.budget_device_hours={budget} pays for no more"
    return f"{_in_words(progress)}, {took}: {why}."


def _seeds_judged(plan: Plan) -> dict[str, int]:
    """Return the number of seeds of each point, by the run of its first seed.

    Experiments that share a first run may have different numbers; the largest counts, so that no
    analysis is forgotten.
    """
    points: dict[str, list[str]] = {}
    for point in plan.points:
        where = canonical([point.experiment, point.arm, point.task, point.values])
        points.setdefault(where, []).append(point.run)
    found: dict[str, int] = {}
    for runs in points.values():
        found[runs[0]] = max(len(runs), found.get(runs[0], 0))
    return found
