"""What brings a plan into being: its records are frozen, its data prepared, its runs trained."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.text import Text

from sweeper.model_process import ModelProcess
from sweeper.options import SweepOptions
from sweeper.outcome import relative_path
from sweeper.plan.plan import Plan, Point, Run
from sweeper.plan.show import ASSUMED_RATE
from sweeper.plan.throughput import Throughput
from sweeper.preparation import prepare
from sweeper.run.backend import Backend
from sweeper.run.job_states import Job, Phase
from sweeper.run.live import LiveTable, Shown
from sweeper.run.schedule import Schedule
from sweeper.run.stop import Stopped, StopSignals
from sweeper.store.errors import shown
from sweeper.store.identity import NOT_IN_IDENTITY, digest_of
from sweeper.store.plans import write_plan
from sweeper.store.runs import RunStore, State, Status

Rounds = Sequence[Mapping[str, Any]]
"""What the rounds before a plan have bought and found, as plain data; none if it is the first."""


@dataclass
class Executor:
    """Trains plans one after the other, on one backend; what failed in one is not tried again.

    Attributes:
        tripped: why nothing more is started; empty while things go on.
    """

    console: Console
    store: RunStore
    process: ModelProcess
    backend: Backend
    options: SweepOptions
    signals: StopSignals
    tripped: str = ""
    _failed: set[str] = field(default_factory=set)
    _prepared: set[str] = field(default_factory=set)

    def left(self, plan: Plan) -> list[str]:
        """The runs of a plan that are to be trained."""
        ids = [run for run in plan.runs if run not in self._failed]
        return [run for run in ids if self.store.run(run).status().state is not State.DONE]

    def done(self, plan: Plan) -> bool:
        """Whether every run of a plan is done."""
        return all(self.store.run(run).status().state is State.DONE for run in plan.runs)

    def throughput(self, plan: Plan) -> Throughput:
        """What the finished runs of a plan say about the time that others take here."""
        return Throughput(_trained(plan, self.store), ASSUMED_RATE[self.backend.device])

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
        configs = {run: plan.runs[run].config for run in left}
        new = {
            run: config for run, config in configs.items() if _data(config) not in self._prepared
        }
        prepare(self.console, self.store, self.process, new, meanwhile=self.backend.warm)
        self._prepared |= {_data(config) for config in new.values()}
        with self.signals.held():
            return self._run(plan, left, about)

    def _run(self, plan: Plan, left: Sequence[str], about: Callable[[float], str]) -> bool:
        metric = {point.run: plan.experiments[point.experiment].metric for point in plan.points}
        shown = {run: Shown(_label(plan, run), plan.runs[run].flops, metric[run]) for run in left}
        with LiveTable(self.console, self.store, shown, about) as live:
            schedule = Schedule(
                self.store,
                self.backend,
                [Job(run, plan.runs[run].flops, plan.runs[run].parent) for run in left],
                self.options,
                live.changed,
                self.options.watchdog(),
                self.signals.check,
            )
            try:
                done = schedule.execute()
            except Stopped as stopped:
                words = "what ran was saved. The same command again continues."
                self.console.print(f"{stopped}: {words}")
                raise SystemExit(stopped.code) from None
        self.tripped = schedule.breaker.tripped
        self._failed |= {run for run, s in schedule.states.items() if s.phase is not Phase.DONE}
        self._say_unfinished(schedule, {run: shown[run].label for run in left})
        return done

    def _say_unfinished(self, schedule: Schedule, labels: Mapping[str, str]) -> None:
        unfinished = [s for s in schedule.states.values() if s.phase is not Phase.DONE]
        if unfinished:
            words = f"{len(unfinished)} of {len(labels)} runs are not done:"
            self.console.print(Text(words, style="bold red"))
        if self.tripped:
            waiting = sum(state.phase is Phase.WAITING for state in unfinished)
            self.console.print(Text(f"  {waiting} were not started: {self.tripped}"))
        for state in (state for state in unfinished if state.phase is not Phase.WAITING):
            run = self.store.run(state.job.run)
            status: Status = run.status()
            log = run.path / "attempts" / f"{status.attempt:04d}" / "log.txt"
            told = f", log: {relative_path(log)}" if status.attempt else ""
            self.console.print(Text(f"  {labels[run.id]}: {state.reason}{told}"))


def freeze(plan: Plan, store: RunStore, estimate: Mapping[str, float], rounds: Rounds = ()) -> None:
    """Write every record and the plan, before anything starts."""
    store.check_writable()
    for run in plan.runs.values():
        record = {"id": run.id, "config": run.config, "size": run.size, "names": run.names}
        store.freeze(record, apart_from=NOT_IN_IDENTITY)
    write_plan(plan.outputs, {**as_data(plan, rounds), "estimate": estimate})


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
        "points": [_described(point) for point in plan.points],
        "runs": {run.id: {"size": run.size, "parent": run.parent} for run in plan.runs.values()},
        **({"rounds": list(rounds)} if rounds else {}),
    }


def _described(point: Point) -> dict[str, Any]:
    return {key: value for key, value in asdict(point).items() if key != "chosen" or value}


def _data(config: Mapping[str, Any]) -> str:
    return digest_of([config["data"], config["task"]])


def _trained(plan: Plan, store: RunStore) -> Iterator[tuple[Run, float]]:
    """The finished runs of this plan, and the seconds each of them trained."""
    for run in plan.runs.values():
        result = store.run(run.id).result()
        if result and result.get("seconds"):
            yield run, result["seconds"]


def _label(plan: Plan, run: str) -> str:
    names = plan.runs[run].names
    return shown(f"{names['experiment']}/{names['arm']} {names['label']}")
