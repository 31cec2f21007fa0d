"""Train the runs of a plan, after writing their records and preparing their data."""

import secrets
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rich.console import Console

from sweeper.plan.plan import Plan, Rounds
from sweeper.plan.throughput import Throughput, measured
from sweeper.results.table import files_made_of
from sweeper.run.backend import Backend, Job
from sweeper.run.failures import hours
from sweeper.run.options import SweepOptions
from sweeper.run.progress import Display, TimeLeft
from sweeper.run.schedule import JobState, Phase, Schedule
from sweeper.run.stop import Stopped, StopSignals
from sweeper.size_server import SizeServer
from sweeper.stages.other_code import RETRAIN, OtherCode, of_other_code, refuse_mixing
from sweeper.stages.publish import LivePage, print_unfinished
from sweeper.stages.terminal import print_lines
from sweeper.store.asked import Terms, asked_in, asked_of, late_terms
from sweeper.store.changes import Changes
from sweeper.store.code import Code, pin
from sweeper.store.errors import NOTE, OTHER_CODE, UserError, sanitize
from sweeper.store.files import make_directory, publish, read_bytes
from sweeper.store.identity import digest_of
from sweeper.store.plans import changing_plans, replaced, write_plan
from sweeper.store.runs import RunStore, State


def prepare(
    console: Console,
    store: RunStore,
    process: SizeServer,
    configs: Mapping[str, Mapping[str, Any]],
    known: set[str],
    meanwhile: Callable[[], None] = lambda: None,
    *,
    retrain: bool = False,
) -> None:
    """Prepare the data of runs, and print the notes in the log of the preparation.

    Args:
        console: where to print.
        store: the store with the records of the runs.
        process: the size server, which forks a process for each preparation.
        configs: the configs of the runs, by id. Data that several runs share is prepared once.
        known: digests of data that is prepared already. This call adds to them.
        meanwhile: a function to call while a preparation is running.
        retrain: whether runs of other code are to be trained again.

    Raises:
        UserError: the data cannot be prepared (the message has the last line of the log), or
            `retrain` is set and other code has prepared the data.
    """
    distinct: dict[str, str] = {}
    for run, config in configs.items():
        distinct.setdefault(digest_of([config["data"], config["task"]]), run)

    # Each process has a log of its own, since several sweeps may prepare data at the same time.
    log = store.outputs / "data" / f"prepare-{secrets.token_hex(4)}.log"
    for run in (run for digest, run in distinct.items() if digest not in known):
        make_directory(log.parent)
        publish(log, "", durable=False)
        with console.status("preparing data ..."):
            job = process.fork("prepare", store.run(run).path, environment={}, log=log)
            try:
                meanwhile()
                code = process.exit_code(job)
            except KeyboardInterrupt:
                process.signal(job, signal.SIGKILL)
                raise
        lines = (read_bytes(log) or b"").decode(errors="replace").split("\n")
        for line in lines:
            if note := _note(line, retrain=retrain):
                print_lines(console, sanitize(note, 1000))
        if code != 0:
            reason = next((line for line in reversed(lines) if line.strip()), "")
            if code < 0:
                reason = f"the process was killed (exit code {code})"
            raise UserError(
                f"the data cannot be prepared: {sanitize(reason)} (log: {log})"
            )
        log.unlink()
    known |= distinct.keys()


def _note(line: str, *, retrain: bool) -> str | None:
    """Return what to print for a line of a preparation's log, or None.

    Raise UserError if other code prepared the data and `retrain` is set.
    """
    if line.startswith(NOTE):
        return line
    if not line.startswith(OTHER_CODE):
        return None
    folder = line.removeprefix(OTHER_CODE)
    if retrain:
        raise UserError(
            f"{RETRAIN}: other code prepared the data in {sanitize(folder, 1000)}; delete this "
            "folder and repeat the command, which prepares the data again."
        )
    return (
        f"{NOTE}other code prepared the data in {folder}. New runs use these data. To "
        "prepare them again, delete this folder and repeat the command."
    )


@dataclass
class Executor:
    """An executor that trains the plans of a sweep, one after the other, on one backend.

    It does not retry runs that failed in an earlier plan.

    Attributes:
        code: the source code at the start of the sweep. All runs of the sweep use it.
        tripped: the reason why the executor starts no more jobs, such as a spent budget; else "".
        chosen_h: the device hours that tuning trials took.
    """

    console: Console
    store: RunStore
    process: SizeServer
    backend: Backend
    options: SweepOptions
    signals: StopSignals
    code: Code
    tripped: str = ""
    chosen_h: float = 0.0
    _failed: set[str] = field(default_factory=set)
    _prepared: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._changes = Changes.of(self.store.outputs, self.code)

    def left(self, plan: Plan) -> list[str]:
        """Return the runs of a plan that are to be trained.

        If `hydra.sweeper.retrain` is set, these include finished runs of other code.
        """
        again = self.other_code(plan).again if self.options.retrain else ()
        ids = [run for run in plan.runs if run not in self._failed]
        return [
            run
            for run in ids
            if run in again or self.store.run(run).status().state is not State.DONE
        ]

    def other_code(self, plan: Plan) -> OtherCode:
        """Return which runs of a plan were trained with code that differs from `code`."""
        return of_other_code(plan, self.store, self._changes)

    def refuse_mixing(self, plan: Plan) -> None:
        """Raise UserError if more seeds would mix runs of different code."""
        if not (self.options.retrain or self.options.accept_mixed_code):
            refuse_mixing(self.other_code(plan))

    def done(self, plan: Plan) -> bool:
        """Return whether every run of a plan is done."""
        return all(
            self.store.run(run).status().state is State.DONE for run in plan.runs
        )

    def throughput(self, plan: Plan) -> Throughput:
        """Return an estimator of training times that has learned from finished runs."""
        return measured(plan, self.store, self.backend.device)

    def train(
        self,
        plan: Plan,
        left: Sequence[str],
        *,
        estimate: Mapping[str, float],
        rounds: Rounds = (),
    ) -> bool:
        """Write a plan, prepare the data and train the runs `left`. Return whether all are done.

        Args:
            plan: the plan.
            left: the runs to train.
            estimate: the expected seconds of training, by run.
            rounds: the rounds that came before this plan.

        Raises:
            UserError: the data cannot be prepared. No job was started.
            SystemExit: a signal stopped the sweep. Running jobs have saved checkpoints.
        """
        self.freeze(plan, estimate, rounds)
        if not left:
            return True
        self.ready(plan, left)
        if self.options.retrain:
            self._begin_anew(plan, left)
        with self.signals.held():
            return self._run(plan, left)

    def _begin_anew(self, plan: Plan, left: Sequence[str]) -> None:
        """Reset the runs of other code, children before their parents.

        The old result of a parent shows that its children must be trained again. So it is removed
        last, in case the sweep is killed halfway.
        """
        # Without the lock, another sweep with this option could train a run in between.
        with changing_plans(plan.outputs):
            again = self.other_code(plan).again
            for run in reversed(left):
                if run in again:
                    self.store.run(run).begin_anew()

    def freeze(
        self, plan: Plan, estimate: Mapping[str, float], rounds: Rounds = ()
    ) -> None:
        """Write the records of a plan's runs, and the plan itself. See the function `freeze`."""
        freeze(plan, self.store, estimate, rounds)

    def ready(self, plan: Plan, left: Sequence[str]) -> None:
        """Copy the code to outputs/code, and prepare the data of the runs `left`."""
        configs = {run: plan.runs[run].config for run in left}
        self.backend.code = self.process.code = pin(
            plan.outputs, self.code, configs.values()
        )
        prepare(
            self.console,
            self.store,
            self.process,
            configs,
            self._prepared,
            self.backend.warm,
            retrain=bool(self.options.retrain),
        )

    def _run(self, plan: Plan, left: Sequence[str]) -> bool:
        """Train the runs `left` and show their progress. Return whether all are done."""
        labels = {run: plan.runs[run].label for run in left}
        throughput = self.throughput(plan)
        time_left = TimeLeft(
            self.store,
            {run: plan.runs[run].steps for run in left},
            lambda run: throughput.knows(plan.runs[run]),
            lambda run: throughput.expected(plan.runs[run]),
            lambda run, *seconds: throughput.learn(plan.runs[run], *seconds),
        )
        # Runs start in the order in which the command line names their experiments.
        order = list(plan.experiments)
        jobs = [
            Job(run.id, run.flops, run.parent, order.index(run.names["experiment"]))
            for run in map(plan.runs.__getitem__, left)
        ]
        options = self.options
        of = " of this round" if options.decide else ""
        with (
            Display(self.console, labels, _metrics(plan), time_left, of) as display,
            LivePage(plan.outputs, self.backend.slots) as page,
        ):

            def changed(schedule: Schedule, state: JobState | None) -> None:
                display.changed(schedule, state)
                if state is None:
                    page.tick()

            spent_h = 0.0
            # Reading the hours of many runs is slow, so read them only if there is a budget.
            if options.budget_device_hours:
                spent_h = self.chosen_h + hours(self.store, plan.runs)
            check = self.signals.check
            schedule = Schedule(
                self.store, self.backend, jobs, options, changed, check, spent_h=spent_h
            )
            try:
                done = schedule.execute()
            except Stopped as stopped:
                words = f"{stopped}: running jobs were saved. Repeat the command to continue."
                self.console.print(words)
                raise SystemExit(stopped.code) from None
        self.tripped = schedule.breaker.tripped
        self._failed |= {
            run for run, s in schedule.states.items() if s.phase is not Phase.DONE
        }
        print_unfinished(self.console, schedule, labels)
        return done


def _metrics(plan: Plan) -> dict[str, str]:
    """Return, for each run, the metric to show when it ends."""
    metrics = {}
    for point in plan.points:
        experiment = plan.experiments[point.experiment]
        metrics[point.run] = experiment.arms[point.arm].metric or experiment.metric
    return metrics


def freeze(
    plan: Plan, store: RunStore, estimate: Mapping[str, float], rounds: Rounds = ()
) -> None:
    """Write the records of a plan's runs, and the plan itself. Call this before any job starts.

    If the plan replaces other results of the same name, remove their tables and figures.

    Args:
        plan: the plan.
        store: the store of the plan's outputs folder.
        estimate: the expected seconds of training, by run. 0 means unknown and is not written.
        rounds: the rounds that came before this plan.
    """
    store.check_writable()
    data = plan.as_data(rounds)
    known = {run: seconds for run, seconds in estimate.items() if seconds}
    with changing_plans(plan.outputs):
        for run in plan.runs.values():
            store.freeze(run)
        for name in replaced(plan.outputs, data):
            for path in files_made_of(plan.outputs, name):
                path.unlink(missing_ok=True)
        asked = _asked_late(plan, store, data)
        about = {"asked": asked} if asked else {}
        write_plan(plan.outputs, {**data, "estimate": known, **about})


def _asked_late(
    plan: Plan, store: RunStore, data: Mapping[str, Any]
) -> dict[str, Terms]:
    """Return the claims, margins and error rates that were chosen after some runs were done.

    The result has the form {experiment: {claim, margin or error rate: ids of the done runs}}.
    """

    @cache
    def done(run: str) -> bool:
        return store.run(run).status().state is State.DONE

    known = asked_in(plan.outputs)
    found = {
        name: late_terms(asked_of(data, name), known, done) for name in plan.experiments
    }
    return {name: terms for name, terms in found.items() if terms}
