"""The training of plans: records are frozen, data is prepared, runs are trained."""

import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rich.console import Console
from rich.text import Text

from sweeper.other_code import OtherCode, of_other_code, refuse_mixing
from sweeper.plan.plan import Plan, Rounds
from sweeper.plan.throughput import Throughput, measured
from sweeper.publish import ResultsAsTheyCome, print_unfinished, print_warnings
from sweeper.results.table import files_made_of
from sweeper.run.backend import Backend, Job
from sweeper.run.failures import hours
from sweeper.run.options import SweepOptions
from sweeper.run.progress import Display, TimeLeft
from sweeper.run.schedule import JobState, Phase, Schedule
from sweeper.run.stop import Stopped, StopSignals
from sweeper.size_server import SizeServer
from sweeper.store.asked import Terms, asked_in, asked_of, late_terms
from sweeper.store.changes import Changes
from sweeper.store.code import Code, differing, pin
from sweeper.store.errors import NOTE, UserError, sanitize
from sweeper.store.files import make_directory, publish, read_bytes
from sweeper.store.identity import NOT_IN_IDENTITY, digest_of
from sweeper.store.plans import replaced, write_plan
from sweeper.store.runs import RunStore, State

EDITS_POLL_S = 30.0  # at least, between two readings of all files of the code


def prepare(
    console: Console,
    store: RunStore,
    process: SizeServer,
    configs: Mapping[str, Mapping[str, Any]],
    known: set[str],
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Build the data of runs, each distinct text once, and print notes about it.

    `known` are digests of the data that is built already; this call adds to them. `meanwhile` is
    called once a build has started. Raise UserError if the data cannot be built; the log has the
    reason.
    """
    distinct: dict[str, str] = {}
    for run, config in configs.items():
        distinct.setdefault(digest_of([config["data"], config["task"]]), run)

    def build(run: str) -> int:
        job = process.fork("prepare", store.run(run).path, environment={}, log=log)
        try:
            meanwhile()
            return process.exit_code(job)
        except KeyboardInterrupt:
            process.signal(job, signal.SIGKILL)
            raise

    log = store.outputs / "data" / "prepare.log"
    for run in (run for digest, run in distinct.items() if digest not in known):
        make_directory(log.parent)
        publish(log, "", durable=False)
        with console.status("preparing data ..."):
            code = build(run)
            if code < 0:  # killed, perhaps for want of memory: try once more
                code = build(run)
        lines = (read_bytes(log) or b"").decode(errors="replace").split("\n")
        for line in lines:
            if line.startswith(NOTE):
                console.print(Text(sanitize(line, 1000)), soft_wrap=True)
        if code != 0:
            last = next((line for line in reversed(lines) if line.strip()), "")
            reason = f"its process was killed (code {code})" if code < 0 else sanitize(last)
            raise UserError(f"the data could not be prepared: {reason} (log: {log})")
    known |= distinct.keys()


@dataclass
class Executor:
    """Trains plans one after the other on one backend; a run that failed is not tried again."""

    console: Console
    store: RunStore
    process: SizeServer
    backend: Backend
    options: SweepOptions
    signals: StopSignals
    code: Code  # that the sweep began with and runs to its end
    tripped: str = ""  # why nothing more starts; empty while jobs start
    chosen_h: float = 0.0  # device hours spent on trials
    _failed: set[str] = field(default_factory=set)
    _prepared: set[str] = field(default_factory=set)
    _edits_due: float = -math.inf

    def __post_init__(self) -> None:
        self._changes = Changes.of(self.store.outputs, self.code)

    def left(self, plan: Plan) -> list[str]:
        """Return the runs of a plan that are to be trained, perhaps again."""
        again = self.other_code(plan).again if self.options.retrain else ()
        ids = [run for run in plan.runs if run not in self._failed]
        return [
            run
            for run in ids
            if run in again or self.store.run(run).status().state is not State.DONE
        ]

    def other_code(self, plan: Plan) -> OtherCode:
        """Return the runs of a plan that other code trained."""
        return of_other_code(plan, self.store, self._changes)

    def refuse_mixing(self, plan: Plan) -> None:
        """Raise UserError if more seeds would mix code and so decide no claim."""
        if not (self.options.retrain or self.options.accept_mixed_code):
            refuse_mixing(self.other_code(plan))

    def done(self, plan: Plan) -> bool:
        """Return whether every run of a plan is done."""
        return all(self.store.run(run).status().state is State.DONE for run in plan.runs)

    def throughput(self, plan: Plan) -> Throughput:
        """Return what finished runs say about the time that the runs of a plan take here."""
        return measured(plan, self.store, self.backend)

    def train(
        self,
        plan: Plan,
        left: Sequence[str],
        *,
        estimate: Mapping[str, float],
        rounds: Rounds = (),
        about: Callable[[float], str] = lambda seconds: "",
    ) -> bool:
        """Freeze a plan, prepare the data of the runs left, and train them; return if all are done.

        Args:
            estimate: expected seconds of training, by run.
            rounds: before this plan.
            about: returns a line for the display, given the seconds of training so far.

        Raises:
            UserError: the data cannot be built; nothing was started.
            SystemExit: stopped by a signal; running jobs were saved.
        """
        self.freeze(plan, estimate, rounds)
        if not left:
            return True
        self.ready(plan, left)
        if self.options.retrain:
            self._begin_anew(plan, left)
        with self.signals.held():
            return self._run(plan, left, about)

    def _begin_anew(self, plan: Plan, left: Sequence[str]) -> None:
        """Set aside the results of other code.

        Children come first: after a kill, the result of their parent still tells that they are of
        other code.
        """
        again = self.other_code(plan).again
        for run in reversed(left):
            if run in again:
                self.store.run(run).begin_anew()

    def freeze(self, plan: Plan, estimate: Mapping[str, float], rounds: Rounds = ()) -> None:
        """Write every record of a plan, and the plan itself."""
        freeze(plan, self.store, estimate, rounds)

    def ready(self, plan: Plan, left: Sequence[str]) -> None:
        """Pin the code and prepare the data of the runs that are left of a frozen plan."""
        configs = {run: plan.runs[run].config for run in left}
        self.backend.code = self.process.code = pin(plan.outputs, self.code, configs.values())
        prepare(self.console, self.store, self.process, configs, self._prepared, self.backend.warm)

    def _run(self, plan: Plan, left: Sequence[str], about: Callable[[float], str]) -> bool:
        asked = (
            (point.run, plan.experiments[point.experiment], point.arm) for point in plan.points
        )
        metrics = {run: of.arms[arm].metric or of.metric for run, of, arm in asked}
        labels = {run: plan.runs[run].label for run in left}
        throughput = self.throughput(plan)
        time_left = TimeLeft(
            self.store,
            {run: plan.runs[run].steps for run in left},
            lambda run: throughput.expected(plan.runs[run]),
            lambda run, *seconds: throughput.learn(plan.runs[run], *seconds),
            measured=throughput.measured,
        )
        ranks: dict[str, int] = {}  # experiments start in the order they were typed in
        by_experiment = {
            name: {point.run for point in plan.points if point.experiment == name} & {*left}
            for name in plan.experiments
        }
        for rank, runs in enumerate(by_experiment.values()):
            ranks = dict.fromkeys(runs, rank) | ranks
        jobs = [
            Job(run.id, run.flops, run.parent, rank=ranks[run.id])
            for run in map(plan.runs.__getitem__, left)
        ]
        options = self.options
        of = " of this round" if options.decide else ""
        early = {} if options.decide else by_experiment
        with (
            Display(self.console, labels, metrics, time_left, about, of) as display,
            ResultsAsTheyCome(self.console, plan.outputs, early, self.backend.slots) as results,
        ):

            def changed(schedule: Schedule, state: JobState | None) -> None:
                display.changed(schedule, state)
                results.changed(state)
                if state is not None:
                    self._report_edits()

            spent_h = 0.0
            if options.budget_device_hours:  # the hours of many runs take long to read
                spent_h = self.chosen_h + hours(self.store, plan.runs)
            check = self.signals.check
            schedule = Schedule(
                self.store, self.backend, jobs, options, changed, check, spent_h=spent_h
            )
            try:
                done = schedule.execute()
            except Stopped as stopped:
                words = "running jobs were saved. The same command again continues."
                self.console.print(f"{stopped}: {words}")
                for run, state in schedule.states.items():
                    if state.phase is Phase.RUNNING and not state.own:  # its sweep may live
                        pid = self.store.run(run).attempts()[-1].info()["pid"]
                        words = f"  {labels[run]} goes on: another sweep started it, process {pid}"
                        self.console.print(Text(words), soft_wrap=True)
                raise SystemExit(stopped.code) from None
        self.tripped = schedule.breaker.tripped
        self._failed |= {run for run, s in schedule.states.items() if s.phase is not Phase.DONE}
        print_unfinished(self.console, schedule, labels)
        print_warnings(self.console, schedule)
        return done

    def _report_edits(self) -> None:
        """Print once that the code was edited; the runs of this sweep go on with the old code."""
        if time.monotonic() < self._edits_due:
            return
        self._edits_due = time.monotonic() + EDITS_POLL_S
        changed = []
        with suppress(OSError):  # files come and go while another commit is checked out
            changed = differing([self.code.parts(), Code.read(self.code.root).parts()])
        if changed:
            self._edits_due = math.inf
            words = f"{', '.join(changed)} changed since this sweep began, which goes on with"
            self.console.print(Text(f"{words} {self.backend.code}"), soft_wrap=True)


def freeze(plan: Plan, store: RunStore, estimate: Mapping[str, float], rounds: Rounds = ()) -> None:
    """Write every record and the plan, before anything starts.

    `estimate`: expected seconds of training by run; those of 0 are unknown and left out.
    """
    store.check_writable()
    for run in plan.runs.values():
        record = {"id": run.id, "config": run.config, "size": run.size, "names": run.names}
        store.freeze(record, apart_from=NOT_IN_IDENTITY)
    data = plan.as_data(rounds)
    for name in replaced(plan.outputs, data):
        for path in files_made_of(plan.outputs, name):  # made again from the records
            path.unlink()
    asked = _asked_late(plan, store, data)
    known = {run: seconds for run, seconds in estimate.items() if seconds}
    about = {"asked": asked} if asked else {}
    write_plan(plan.outputs, {**data, "estimate": known, **about})


def _asked_late(plan: Plan, store: RunStore, data: Mapping[str, Any]) -> dict[str, Terms]:
    """Return, by experiment, what is asked for the first time although runs are done."""

    @cache
    def done(run: str) -> bool:
        return store.run(run).status().state is State.DONE

    known = asked_in(plan.outputs)
    found = {name: late_terms(asked_of(data, name), known, done) for name in plan.experiments}
    return {name: terms for name, terms in found.items() if terms}
