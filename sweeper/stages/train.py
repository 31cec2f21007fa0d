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
from sweeper.run.schedule import JobState, Phase, Schedule
from sweeper.run.stop import Stopped, StopSignals
from sweeper.size_server import SizeServer
from sweeper.stages.other_code import RETRAIN, OtherCode, of_other_code, refuse_mixing
from sweeper.stages.progress import Display, TimeLeft
from sweeper.stages.publish import LivePage, print_unfinished
from sweeper.stages.terminal import print_lines
from sweeper.store.asked import Terms, asked_in, asked_of, late_terms
from sweeper.store.changes import Changes
from sweeper.store.code import pin
from sweeper.store.errors import NOTE, OTHER_CODE, UserError, sanitize
from sweeper.store.files import make_directory, publish
from sweeper.store.identity import digest_of
from sweeper.store.plans import changing_plans, replaced, write_plan
from sweeper.store.records import Record
from sweeper.store.runs import RunStore, State


@dataclass
class Executor:
    """An executor that trains the plans of a sweep, one after the other, on one backend.

    A sweep has several plans if it tunes, or if it trains in rounds. Runs that failed in an earlier
    plan are not tried again.

    Attributes:
        changes: an object that compares runs with the present code. All runs of the sweep use
            the code `changes.code`, which was read at the start of the sweep.
        tripped: the reason why the executor starts no more jobs, such as a spent budget; "" while
            it still starts jobs.
        chosen_h: the device hours that tuning trials took.
    """

    console: Console
    store: RunStore
    process: SizeServer
    backend: Backend
    options: SweepOptions
    signals: StopSignals
    changes: Changes
    tripped: str = ""
    chosen_h: float = 0.0
    _failed: set[str] = field(default_factory=set)
    _prepared: set[str] = field(default_factory=set)

    def left(self, plan: Plan) -> list[str]:
        """Return the ids of the runs of a plan that are still to be trained.

        Leave out runs that failed in this sweep. If `hydra.sweeper.retrain` is set, include
        finished runs that other code trained.
        """
        again = self.other_code(plan).again if self.options.retrain else ()
        return [
            run
            for run in plan.runs
            if run not in self._failed and (run in again or not self._is_done(run))
        ]

    def _is_done(self, run: str) -> bool:
        return self.store.run(run).status().state is State.DONE

    def other_code(self, plan: Plan) -> OtherCode:
        """Return which runs of a plan were trained with code that has changed since."""
        return of_other_code(plan, self.store, self.changes)

    def refuse_mixing(self, plan: Plan) -> None:
        """Raise UserError if new runs would mix with finished runs of other code.

        Do nothing if `hydra.sweeper.retrain` or `hydra.sweeper.accept_mixed_code` is set.
        """
        if not (self.options.retrain or self.options.accept_mixed_code):
            refuse_mixing(self.other_code(plan))

    def done(self, plan: Plan) -> bool:
        """Return whether every run of a plan is done."""
        return all(map(self._is_done, plan.runs))

    def throughput(self, plan: Plan) -> Throughput:
        """Return an estimator of training times that has learned from the finished runs."""
        return measured(plan, self.store, self.backend.device)

    def train(self, plan: Plan, left: Sequence[str], *, rounds: Rounds = ()) -> bool:
        """Write a plan, prepare the data and train the runs `left`.

        Return whether all runs of `left` are done.

        Args:
            plan: the plan.
            left: the ids of the runs to train.
            rounds: the rounds of `hydra.sweeper.decide` that came before this plan.

        Raises:
            UserError: the data cannot be prepared. No job was started.
            SystemExit: a signal stopped the sweep. Running jobs have saved checkpoints.
        """
        records = {run: plan.runs[run] for run in left}
        throughput = self.throughput(plan)
        estimate = throughput.estimate(records.values())
        freeze(plan, self.store, estimate, rounds)
        if not left:
            return True
        self.prepare(records, self.backend.warm)
        if self.options.retrain:
            self._begin_anew(plan, left)
        time_left = TimeLeft(self.store, records, throughput)
        with self.signals.held():
            return self._run(plan, time_left)

    def prepare(
        self, records: Mapping[str, Record], meanwhile: Callable[[], None]
    ) -> None:
        """Copy the code to outputs/code, and prepare the data of runs.

        Args:
            records: the records of the runs, by run id. Data that several runs share is prepared
                once.
            meanwhile: a function to call while the data is being prepared.

        Raises:
            UserError: the data cannot be prepared, or other code has prepared the data of runs that
                are to be trained again.
        """
        configs = {run: record.config for run, record in records.items()}
        code = pin(self.store.outputs, self.changes.code, configs.values())
        self.backend.code = self.process.code = code
        for run, config in configs.items():
            digest = digest_of([config["data"], config["task"]])
            if digest not in self._prepared:
                self.prepare_data(run, meanwhile)
                self._prepared.add(digest)

    def prepare_data(self, run: str, meanwhile: Callable[[], None]) -> None:
        """Prepare the data of a run in another process, and print the notes in its log.

        If the process fails, raise UserError with the last line of the log.
        """
        # Give each log a name of its own, since several sweeps may prepare data at the same time.
        log = self.store.outputs / "data" / f"prepare-{secrets.token_hex(4)}.log"
        make_directory(log.parent)
        publish(log, "", durable=False)
        folder = self.store.run(run).path
        with self.console.status("preparing data ..."):
            job = self.process.fork("prepare", folder, environment={}, log=log)
            try:
                meanwhile()
                code = self.process.exit_code(job)
            except KeyboardInterrupt:
                self.process.signal(job, signal.SIGKILL)
                raise
        lines = log.read_text("utf-8", errors="replace").split("\n")
        for line in lines:
            self._print_note(line)
        if code != 0:
            reason = next((line for line in reversed(lines) if line.strip()), "")
            if code < 0:
                reason = f"the process was killed (exit code {code})"
            raise UserError(
                f"the data cannot be prepared: {sanitize(reason)} (log: {log})"
            )
        log.unlink()

    def _print_note(self, line: str) -> None:
        """Print a line of the log of a preparation if it is a note for the user.

        With `hydra.sweeper.retrain`, raise UserError if the line says that other code prepared the
        data.
        """
        if line.startswith(OTHER_CODE):
            folder = line.removeprefix(OTHER_CODE)
            if self.options.retrain:
                raise UserError(
                    f"{RETRAIN} needs data that the present code prepared, but other code prepared "
                    f"{sanitize(folder, 1000)}; delete this folder and repeat the command, which "
                    "prepares the data again."
                )
            line = (
                f"{NOTE}other code prepared the data in {folder}. New runs use these data. To "
                "prepare them again, delete this folder and repeat the command."
            )
        if line.startswith(NOTE):
            print_lines(self.console, sanitize(line, 1000))

    def _begin_anew(self, plan: Plan, left: Sequence[str]) -> None:
        """Reset the runs of `left` that other code trained, so that they start from step 0.

        `left` has parents before children. Reset children before parents, because the old result
        of a parent may be the only sign that a child needs a reset. If the parents came first and
        this sweep were killed halfway, the next sweep would miss such children.
        """
        # Hold the lock, so that no other sweep with this option trains a run in between.
        with changing_plans(plan.outputs):
            again = self.other_code(plan).again
            for run in reversed(left):
                if run in again:
                    self.store.run(run).begin_anew()

    def _run(self, plan: Plan, time_left: TimeLeft) -> bool:
        """Train the runs in `time_left.records`, and show progress. Return whether all are done."""
        records = time_left.records
        labels = {run: record.label for run, record in records.items()}
        # Runs start in the order in which the command line names their experiments.
        rank = {name: place for place, name in enumerate(plan.experiments)}
        jobs = [
            Job(run.id, run.flops, run.parent, rank[run.names["experiment"]])
            for run in records.values()
        ]
        options = self.options
        spent_h = 0.0
        # Read the device hours of finished runs only if there is a budget, since this is slow.
        if options.budget_device_hours:
            spent_h = self.chosen_h + hours(self.store, plan.runs)
        of = " of this round" if options.decide else ""
        with (
            Display(self.console, labels, _metrics(plan), time_left, of) as display,
            LivePage(plan.outputs, self.backend.slots) as page,
        ):

            def changed(schedule: Schedule, state: JobState | None) -> None:
                display.changed(schedule, state)
                if state is None:
                    page.tick()

            schedule = Schedule(
                self.store,
                self.backend,
                jobs,
                options,
                changed,
                self.signals.check,
                spent_h=spent_h,
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
    """Return the name of the metric to show when a run is done, by run id."""
    metrics = {}
    for point in plan.points:
        experiment = plan.experiments[point.experiment]
        metrics[point.run] = experiment.arms[point.arm].metric or experiment.metric
    return metrics


def freeze(
    plan: Plan, store: RunStore, estimate: Mapping[str, float], rounds: Rounds = ()
) -> None:
    """Write a plan and the records of its runs to disk. Call this before any job starts.

    If the plan replaces other results of the same name, remove their tables and figures.

    Args:
        plan: the plan.
        store: the store of the runs in the outputs folder of the plan.
        estimate: the expected seconds of training, by run id. 0 means unknown and is not written.
        rounds: the rounds of `hydra.sweeper.decide` that came before this plan.
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
    """Return the claims, margins and error rates that were chosen when runs were already done.

    `data` is the plan as plain data. The result has the form {experiment: {term: run ids}}. A term
    is a claim, a margin or an error rate. The runs are those that were done when it was chosen.
    """

    @cache
    def done(run: str) -> bool:
        return store.run(run).status().state is State.DONE

    known = asked_in(plan.outputs)
    found = {
        name: late_terms(asked_of(data, name), known, done) for name in plan.experiments
    }
    return {name: terms for name, terms in found.items() if terms}
