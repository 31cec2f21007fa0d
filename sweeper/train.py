"""The data of a sweep, built before anything trains, once for each distinct one."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sweeper.options import SweepOptions
from sweeper.plan.plan import Plan
from sweeper.plan.throughput import Throughput, measured
from sweeper.publish import FiguresAsTheyCome, print_unfinished
from sweeper.results.table import set_aside
from sweeper.run.backend import Backend, Job, JobState, Phase
from sweeper.run.failures import Budget, hours
from sweeper.run.progress import Display, RunLabel, TimeLeft, makespan, remaining, share_done
from sweeper.run.schedule import Schedule
from sweeper.run.stop import Stopped, StopSignals
from sweeper.size_server import SizeServer
from sweeper.store.code import Code, Edits, pin
from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import make_directory, publish, read_bytes
from sweeper.store.identity import NOT_IN_IDENTITY, digest_of
from sweeper.store.plans import older, replaced, write_plan
from sweeper.store.runs import RunStore, State


def prepare(
    console: Console,
    store: RunStore,
    process: SizeServer,
    configs: Mapping[str, Mapping[str, Any]],
    known: set[str],
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Build the data of runs, given with their configs, once for each distinct one.

    `known` are digests of what is built already, to which these come. `meanwhile` is called when
    that has begun: nothing trains yet.

    Raises:
        UserError: the data cannot be built; the log says why.
    """
    distinct: dict[str, str] = {}
    for run, config in configs.items():
        distinct.setdefault(digest_of([config["data"], config["task"]]), run)
    for run in (run for digest, run in distinct.items() if digest not in known):
        log = store.outputs / "data" / "prepare.log"
        make_directory(log.parent)
        publish(log, "", durable=False)
        with console.status("preparing data ..."):
            code = _prepared(process, store.run(run).path, log, meanwhile)
            if code < 0:  # killed, for want of memory perhaps: tried once more
                code = _prepared(process, store.run(run).path, log, meanwhile)
        if code != 0:
            said = (read_bytes(log) or b"").decode(errors="replace").split("\n")
            last = next((line for line in reversed(said) if line.strip()), "")
            reason = f"its process was killed (code {code})" if code < 0 else sanitize(last)
            raise UserError(f"the data could not be prepared: {reason} (log: {log})")
    known |= distinct.keys()


def _prepared(process: SizeServer, run: Path, log: Path, meanwhile: Callable[[], None]) -> int:
    """Prepare the data of a run in a process of its own, which ends with this one; its code."""
    job = process.fork("prepare", run, environment={}, log=log)
    try:
        meanwhile()
        return process.exit_code(job)
    except KeyboardInterrupt:
        process.signal(job, signal.SIGKILL)
        raise


Rounds = Sequence[Mapping[str, Any]]
"""What the rounds before a plan have bought and found, as plain data; none if it is the first."""


@dataclass
class Executor:
    """Trains plans one after the other, on one backend; what failed in one is not tried again.

    Attributes:
        code: what the sweep began with, and runs to its end.
        tripped: why nothing more is started; empty while things go on.
        chosen_h: device hours that went into what a plan is to have, as those of trials.
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
    _throughput: Throughput | None = None
    _failed: set[str] = field(default_factory=set)
    _prepared: set[str] = field(default_factory=set)

    @cached_property
    def _edits(self) -> Edits:
        return Edits(self.code)

    def left(self, plan: Plan) -> list[str]:
        """The runs of a plan that are to be trained."""
        ids = [run for run in plan.runs if run not in self._failed]
        return [run for run in ids if self.store.run(run).status().state is not State.DONE]

    def done(self, plan: Plan) -> bool:
        """Whether every run of a plan is done."""
        return all(self.store.run(run).status().state is State.DONE for run in plan.runs)

    def throughput(self, plan: Plan) -> Throughput:
        """Return what finished runs say about the time that the runs of a plan take here."""
        self._throughput = measured(plan, self.store, self.backend.device, self.backend.sharing)
        return self._throughput

    def seconds(self, plan: Plan, left: Sequence[str], throughput: Throughput) -> float:
        """How long the runs that are left of a plan are thought to take, as many at a time as are;
        of one that was interrupted, or that another sweep trains, what is left of it."""
        waiting = {}
        for run in sorted((plan.runs[run] for run in left), key=lambda run: -run.flops):
            share = share_done(self.store.run(run.id), run.steps)
            waiting[run.id] = remaining(throughput.expected(run), share), run.parent
        return makespan({}, waiting, self.backend.slots)

    def train(
        self,
        plan: Plan,
        left: Sequence[str],
        *,
        estimate: Mapping[str, float],
        rounds: Rounds = (),
        about: Callable[[float], str] = lambda seconds: "",
    ) -> bool:
        """Freeze a plan, prepare the data of the runs that are left and train them.

        Args:
            estimate: seconds each of them is thought to train, by run.
            rounds: what stood before this plan.
            about: what a person is told meanwhile, given the seconds of training so far.

        Returns:
            Whether all of them are done.

        Raises:
            UserError: the data cannot be built; nothing was started.
            SystemExit: asked to stop; what ran was saved.
        """
        freeze(plan, self.store, estimate, rounds)
        if not left:
            return True
        self.ready(plan, left)
        with self.signals.held():
            return self._run(plan, left, about)

    def ready(self, plan: Plan, left: Sequence[str]) -> None:
        """Pin the code and prepare the data of the runs that are left of a frozen plan."""
        configs = {run: plan.runs[run].config for run in left}
        self.backend.code = self.process.code = pin(plan.outputs, self.code, configs.values())
        prepare(self.console, self.store, self.process, configs, self._prepared, self.backend.warm)

    def _run(self, plan: Plan, left: Sequence[str], about: Callable[[float], str]) -> bool:
        metric = {point.run: plan.experiments[point.experiment].metric for point in plan.points}
        shown = {run: RunLabel(plan.runs[run].label, metric[run]) for run in left}
        time_left = self._time_left(plan, left)
        of = " of this round" if self.options.decide else ""
        early = {} if self.options.decide else plan.by_experiment(left)
        limit = self.options.budget_device_hours
        budget = Budget(limit, self.chosen_h + hours(self.store, plan.runs) if limit else 0.0)
        with (
            Display(self.console, self.store, shown, time_left, about, of) as live,
            FiguresAsTheyCome(self.console, plan.outputs, early) as figures,
        ):

            def changed(schedule: Schedule, state: JobState | None) -> None:
                live.changed(schedule, state)
                figures.changed(state)
                if state is not None:
                    self._say_if_edited()

            schedule = Schedule(
                self.store,
                self.backend,
                self._jobs(plan, left),
                self.options,
                changed,
                self.options.watchdog(),
                self.signals.check,
                budget=budget,
            )
            try:
                done = schedule.execute()
            except Stopped as stopped:
                words = "what ran was saved. The same command again continues."
                self.console.print(f"{stopped}: {words}")
                raise SystemExit(stopped.code) from None
        self.tripped = schedule.breaker.tripped
        self._failed |= {run for run, s in schedule.states.items() if s.phase is not Phase.DONE}
        print_unfinished(self.console, schedule, {run: shown[run].label for run in left})
        return done

    def _say_if_edited(self) -> None:
        """Once, when the code was edited meanwhile: what is running or waiting does not heed it."""
        if changed := self._edits.new():
            told = f"{', '.join(changed)} changed since this sweep began, which goes on with"
            self.console.print(Text(f"{told} {self.backend.code}"), soft_wrap=True)

    def _time_left(self, plan: Plan, left: Sequence[str]) -> TimeLeft:
        throughput = self._throughput or self.throughput(plan)
        return TimeLeft(
            self.store,
            {run: plan.runs[run].steps for run in left},
            lambda run: throughput.expected(plan.runs[run]),
            lambda run, *seconds: throughput.learn(plan.runs[run], *seconds),
        )

    def _jobs(self, plan: Plan, left: Sequence[str]) -> list[Job]:
        ranks: dict[str, int] = {}
        for rank, runs in enumerate(plan.by_experiment(left).values()):
            ranks = dict.fromkeys(runs, rank) | ranks
        takes = (self._throughput or self.throughput(plan)).expected
        return [
            Job(run.id, run.flops, run.parent, rank=ranks[run.id], seconds=sum(takes(run)))
            for run in map(plan.runs.__getitem__, left)
        ]


def freeze(plan: Plan, store: RunStore, estimate: Mapping[str, float], rounds: Rounds = ()) -> None:
    """Write every record and the plan, before anything starts."""
    store.check_writable()
    for run in plan.runs.values():
        record = {"id": run.id, "config": run.config, "size": run.size, "names": run.names}
        store.freeze(record, apart_from=NOT_IN_IDENTITY)
    data = as_data(plan, rounds)
    for name, number in replaced(plan.outputs, data).items():
        set_aside(plan.outputs, name, older(name, number))
    write_plan(plan.outputs, {**data, "estimate": estimate})


def as_data(plan: Plan, rounds: Rounds = ()) -> dict[str, Any]:
    """The plan as plain data, which the stages after it read."""
    return {
        "command": sys.argv,
        "scale": plan.scale,
        "experiments": {
            name: {**e.described(), "scale": plan.scale, "text": plan.texts[name]}
            | ({"tuning": list(plan.tuning[name])} if name in plan.tuning else {})
            for name, e in plan.experiments.items()
        },
        "points": [point.as_data() for point in plan.points],
        "runs": {run.id: {"size": run.size, "parent": run.parent} for run in plan.runs.values()},
        **({"rounds": list(rounds)} if rounds else {}),
    }
