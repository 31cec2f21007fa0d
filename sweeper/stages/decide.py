"""Train in rounds until the claims are decided, for `hydra.sweeper.decide=true`.

After each round, the sweep judges the claims. The next round trains more seeds of the points that
undecided claims compare. The sweep ends when all claims are decided, when a limit on seeds or cost
is reached, or when more seeds cannot help."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeper.plan.plan import Plan, Rounds
from sweeper.plan.seeds import with_seeds
from sweeper.results.collect import Records, before_training
from sweeper.results.decision import Question
from sweeper.results.judge import check_decidable, decidable
from sweeper.results.verdict import Decision
from sweeper.run.backend import device_hours
from sweeper.run.options import SweepOptions
from sweeper.stages.terminal import print_lines
from sweeper.stages.train import Executor, freeze
from sweeper.store.errors import invalid_value, sanitize
from sweeper.store.numbers import plural


@dataclass(frozen=True)
class Progress:
    """The judged claims of a plan.

    Attributes:
        questions: pairs (name, question). A question is one claim, judged by one metric. The name
            is the name of the claim, such as "saves_parameters", or "fig1/saves_parameters" if the
            plan has several experiments.
        spent_h: the device hours that the finished runs of the plan took.
        until: the names of the claims to decide; [] means all.
    """

    questions: Sequence[tuple[str, Question]]
    spent_h: float
    until: Sequence[str]

    @classmethod
    def of(
        cls, plan: Plan, records: Records, until: Sequence[str], before: Rounds
    ) -> Progress:
        """Judge the claims of a plan on its finished runs.

        `before` has the earlier rounds. Each round was an interim analysis.
        """
        tables = records.tables(plan.as_data(before))
        rows = [row for table in tables for row in table.rows]
        seconds = {str(row["run"]): row.get("seconds") or 0.0 for row in rows}
        questions = [
            (f"{table.name}/{one.name}" if len(tables) > 1 else one.name, one)
            for table in tables
            for one in decidable(table)
        ]
        return cls(questions, _device_hours(plan, seconds), until)

    @property
    def asked(self) -> list[tuple[str, Question]]:
        """The pairs of `questions` whose claims are in `until`, or all pairs if it is empty."""
        until = self.until
        return [pair for pair in self.questions if not until or pair[1].name in until]

    @property
    def undecided(self) -> list[str]:
        """The names of the pairs in `asked` that are still undecided."""
        return [
            claim for claim, one in self.asked if one.decision is Decision.UNDECIDED
        ]

    def seeds(self, most: int) -> dict[str, int]:
        """Return how many seeds each point of the undecided claims needs in the next round.

        The key of a point is the id of the run with its first seed. Ignore a claim if it needs more
        than `most` seeds per point, or if more seeds cannot decide it.
        """
        found: dict[str, int] = {}
        for _, one in self.asked:
            for run, seeds in one.next_seeds(most).items():
                found[run] = max(found.get(run, 0), seeds)
        return found

    @property
    def seeds_judged(self) -> dict[str, int]:
        """The number of judged seeds of each point.

        The key of a point is the id of the run with its first seed. If several questions compare
        the point, the value is the largest number of seeds that one of them judged.
        """
        found: dict[str, int] = {}
        for _, one in self.questions:
            for point in one.evidence.measured:
                judged = found.get(point.first_run, 0)
                found[point.first_run] = max(len(point.runs), judged)
        return found


def check_claims(plan: Plan, until: Sequence[str] = ()) -> None:
    """Raise UserError if the plan has a claim that its runs cannot decide, whatever they measure.

    Also raise UserError if `until`, the option `hydra.sweeper.until`, names a claim that the plan
    lacks.
    """
    configs = {run.id: run.config for run in plan.runs.values()}
    for table in before_training(plan.as_data(), configs):
        check_decidable(table)
    for claim in until:
        if claim not in plan.claims:
            expected = (
                f"a claim of the sweep ({', '.join(plan.claims) or 'it has none'})"
            )
            remedy = "correct it or leave it out"
            raise invalid_value("hydra.sweeper.until", claim, expected, remedy)


@dataclass(frozen=True)
class Round:
    """A round of training. All rounds but the first add seeds to points.

    Attributes:
        plan: all points and runs, including those of earlier rounds.
        seeds: maps the run id of a point's first seed to the total number of the point's seeds.
            Points to which no round has added seeds are left out.
        seconds: the expected training time in seconds of each run to train, by run id.
        before: the earlier rounds, as plain data (see `Rounds`). Each has the number of judged
            seeds of each point.
        purpose: the reason for the round, as a phrase to print.
    """

    plan: Plan
    seeds: Mapping[str, int]
    seconds: Mapping[str, float]
    before: Rounds
    purpose: str


def decide(executor: Executor, first: Plan, estimate: Mapping[str, float]) -> bool:
    """Train rounds of seeds until every claim is decided or a limit is reached.

    Args:
        executor: the executor that trains the rounds.
        first: the plan of the first round. It has the seeds that the experiments list.
        estimate: the expected training time in seconds of each unfinished run, by run id.

    Returns:
        Whether all runs of the last round are done.

    Raises:
        UserError: the first round is expected to exceed the budget.
    """
    options = executor.options
    cost = executor.chosen_h + _device_hours(first, estimate)
    # Check the budget only before any run is done. Otherwise, a repeated command could stop here,
    # because the estimate has changed since.
    if len(estimate) == len(first.runs) and not _within_budget(options, cost):
        raise invalid_value(
            "hydra.sweeper.budget_device_hours",
            options.budget_device_hours,
            f"at least {math.ceil(100 * cost) / 100:.2f}, the estimated cost of the first round",
            "raise it, or sweep fewer points",
        )
    now = Round(first, {}, estimate, [], "the seeds of the experiment")
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
    freeze(now.plan, executor.store, {}, now.before)
    print_lines(executor.console, _summary(executor, now, progress))
    return executor.done(now.plan)


def _next(executor: Executor, last: Round, progress: Progress) -> Round | None:
    """Return the next round, which adds seeds to the points of undecided claims.

    Return None if no point gets another seed, or if the round would exceed the budget.
    """
    options = executor.options
    seeds = {**last.seeds, **progress.seeds(options.max_seeds)}
    plan = with_seeds(last.plan, seeds)
    throughput = executor.throughput(last.plan)
    new = [run for run in executor.left(plan) if run not in last.plan.runs]
    seconds = {run: throughput.expected(plan.runs[run]).training for run in new}
    cost = executor.chosen_h + progress.spent_h + _device_hours(plan, seconds)
    # Compare the numbers of points instead of runs, because another experiment of the plan may
    # already have the run of a new seed.
    more = len(plan.points) > len(last.plan.points)
    if not more or (new and not _within_budget(options, cost)):
        return None
    before = [*last.before, {"seeds_judged": progress.seeds_judged}]
    return Round(plan, seeds, seconds, before, _undecided_claims(progress))


def _within_budget(options: SweepOptions, hours: float) -> bool:
    budget = options.budget_device_hours
    return budget is None or hours <= budget


def _device_hours(plan: Plan, seconds: Mapping[str, float]) -> float:
    """Return the sum of the device hours of runs, given their training times in seconds by id."""
    return sum(
        device_hours(plan.runs[run].config, took) for run, took in seconds.items()
    )


def _undecided_claims(progress: Progress) -> str:
    """Return a phrase: "2 of 3 verdicts undecided: wins_at_equal_size, saves_parameters"."""
    undecided = progress.undecided
    claims = ", ".join(dict.fromkeys(undecided))
    verdicts = plural(len(progress.asked), "verdict")
    return sanitize(f"{len(undecided)} of {verdicts} undecided: {claims}")


def _train(executor: Executor, now: Round, left: Sequence[str]) -> None:
    """Print the purpose and the cost of the round `now`, and train the runs `left` of its plan."""
    runs = plural(len(now.seconds), "run")
    cost = f"about {_device_hours(now.plan, now.seconds):.2g} device hours"
    head = f"round {len(now.before) + 1}, {runs}, {cost}: {now.purpose}"
    print_lines(executor.console, head)
    executor.train(now.plan, left, rounds=now.before)


def _summary(executor: Executor, last: Round, progress: Progress) -> str:
    """Return a summary for the user: decided claims, cost, and why no further round follows."""
    options, verdicts = executor.options, len(progress.asked)
    rounds, runs = len(last.before) + 1, len(last.plan.runs)
    took = (
        f"after {plural(rounds, 'round')}, {plural(runs, 'run')}, "
        f"{progress.spent_h:.2g} device hours"
    )
    if not progress.undecided:
        of = " of hydra.sweeper.until" if options.until else ""
        return f"{plural(verdicts, 'verdict')}{of} decided {took}."
    why = (
        "no undecided claim can get further seeds within "
        f"hydra.sweeper.max_seeds={options.max_seeds}; repeat the command with a larger number, "
        "unless the verdict below gives another reason"
    )
    if executor.tripped:
        why = executor.tripped
    elif progress.seeds(options.max_seeds):
        budget = f"{options.budget_device_hours:g}"
        why = (
            f"the next round would exceed hydra.sweeper.budget_device_hours={budget}; to continue, "
            "repeat the command with a larger budget"
        )
    return f"{_undecided_claims(progress)} ({took}): {why}."
