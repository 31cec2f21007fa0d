"""How long the runs of a schedule take yet: what each is thought to, less what it has shown it did.

What runs show corrects what is thought of those like them, by `learn`: the pace of one under way
as soon as it can be told, and what one took once it is done.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sweeper.run.backend import JobState, Phase, counts
from sweeper.run.schedule import Schedule
from sweeper.store.numbers import clock
from sweeper.store.runs import Run, RunStore, State, Taken

AFTER = 0.85  # of what a run takes beside its training: what comes after it, evaluation above all
PACE_S = 3.0  # a run is watched so long before its own pace is believed
REST = 20  # times as long as the sum takes, it is not done again

Expected = Callable[[str], Taken]
Learn = Callable[[str, float, float | None, float], None]
"""Of a run: seconds of a share of its steps, seconds beside them if they are known, the share."""


@dataclass
class _Watched:
    """A run under way, at the newest moment that says how far it is.

    `share` of its steps were done then, and `beside` of what it takes beside them was to come.
    """

    begun: float
    resumed: float  # the share of its steps that were done when it began
    adopted: bool
    at: float
    share: float
    beside: float = 1.0
    first: tuple[float, float] | None = None  # moment and share when a step was first seen
    heartbeat: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class TimeLeft:
    """Follows the runs of a schedule; `note` each change of phase, and `follow` now and then.

    `steps` are those of each run, `expected` is what is thought, `learn` who is told better.
    """

    store: RunStore
    steps: Mapping[str, int]
    expected: Expected
    learn: Learn
    clock: Callable[[], float] = time.monotonic
    _watched: dict[str, _Watched] = field(default_factory=dict)
    _end: float = 0.0
    _due: float = 0.0

    def __post_init__(self) -> None:
        self._shares = {r: share_done(self.store.run(r), count) for r, count in self.steps.items()}

    def note(self, state: JobState) -> None:
        """A run changed its phase."""
        run, now, self._due = state.job.run, self.clock(), 0.0
        watched = self._watched.pop(run, None)
        if state.phase is Phase.RUNNING:
            share, adopted = self._shares[run], state.handle is None
            self._watched[run] = _Watched(now, share, adopted, now, share)
        elif state.phase is Phase.WAITING:
            self._shares[run] = share_done(self.store.run(run), self.steps[run])
        elif state.phase is Phase.DONE:
            result = self.store.run(run).result() or {}
            training, beside = result.get("seconds"), result.get("overhead_seconds")
            if training is not None:
                if watched and not watched.adopted:  # the process's start and end counted in
                    beside = max(0.0, now - watched.begun - training * (1 - watched.resumed))
                self.learn(run, training, beside, 1.0)

    def follow(self, states: Mapping[str, JobState]) -> None:
        """Take note of what the runs under way have told."""
        for run, watched in self._watched.items():
            status = states[run].status
            watched.heartbeat = (status and status.heartbeat) or {}
            step, now = watched.heartbeat.get("step"), self.clock()
            share = step / self.steps[run] if step else 0.0
            if not step or (watched.first and share == watched.share):
                continue
            first_at, first_share = watched.first = watched.first or (now, share)
            watched.at, watched.share, watched.beside = now, share, AFTER
            if now - first_at >= PACE_S:
                self.learn(run, now - first_at, None, share - first_share)

    def heartbeat(self, run: str) -> Mapping[str, Any]:
        """The newest heartbeat of a run under way, as of the last `follow`."""
        return self._watched[run].heartbeat

    def of_run(self, run: str) -> float:
        """Seconds until a run that is under way ends."""
        watched, whole = self._watched[run], self.expected(run)
        left = whole.training * (1 - watched.share) + whole.beside * watched.beside
        return max(0.0, left - (self.clock() - watched.at))

    def seconds(self, schedule: Schedule) -> float:
        """Seconds until all runs of the schedule have ended."""
        if (now := self.clock()) >= self._due:
            over = schedule.stopping or schedule.breaker.tripped  # nothing more is started
            waiting = {
                run: (remaining(self.expected(run), self._shares[run]), state.job.parent)
                for run, state in schedule.states.items()
                if state.phase is Phase.WAITING and not over
            }
            under_way = {run: self.of_run(run) for run in self._watched}
            self._end = now + makespan(under_way, waiting, schedule.backend.slots)
            self._due = now + REST * (self.clock() - now)
        return max(0.0, self._end - now)


def makespan(
    under_way: Mapping[str, float], waiting: Mapping[str, tuple[float, str | None]], slots: int
) -> float:
    """Seconds until runs have ended that are started in their order, each after its parent.

    Args:
        under_way: seconds that each takes yet; there may be more than slots.
        waiting: seconds, and the parent, which is done if it is in neither.
    """
    slots = max(slots, len(under_way))
    ends = sorted((seconds, run) for run, seconds in under_way.items())
    children: dict[str, list[int]] = {}
    ready, runs = [], list(waiting)
    for place, (_, parent) in enumerate(waiting.values()):
        if parent in under_way or parent in waiting:
            children.setdefault(str(parent), []).append(place)
        else:
            ready.append(place)
    now = 0.0
    while True:
        while ready and len(ends) < slots:
            run = runs[heapq.heappop(ready)]
            heapq.heappush(ends, (now + waiting[run][0], run))
        if not ends:
            return now
        now, ended = heapq.heappop(ends)
        for place in children.get(ended, ()):
            heapq.heappush(ready, place)


def remaining(whole: Taken, share: float) -> float:
    """Seconds of a run that is yet to be started, where so large a share of its steps is done."""
    return whole.training * (1 - share) + whole.beside


def share_done(run: Run, steps: int) -> float:
    """The share of its steps that a run does not train again: its newest checkpoint's, or, while
    it is under way, that of its newest heartbeat."""
    if not steps or not run.attempts():
        return 0.0
    status = run.status()
    if status.state is State.RUNNING:
        step: int = (status.heartbeat or {}).get("step", 0)
        return step / steps
    saved = (int(path.stem.removeprefix("step-")) for path in run.checkpoints())
    return max(saved, default=0) / steps


@dataclass(frozen=True)
class Shown:
    """How a run is named to a person, and by what its result is."""

    label: str
    metric: str


@dataclass
class LiveTable(ExitStack):
    """Follows a schedule; give its `changed` to the schedule.

    `about` says above the table what all of it is for, given the seconds of training so far; `of`
    is what the time that is left is left of, where that is not the whole sweep.
    """

    console: Console
    store: RunStore
    shown: Mapping[str, Shown]
    time_left: TimeLeft
    about: Callable[[float], str] = lambda seconds: ""
    of: str = ""
    _started: float = field(default_factory=time.monotonic)
    _begun: dict[str, float] = field(default_factory=dict)
    _spent: dict[str, float] = field(default_factory=dict)  # slot time of runs that are done, in s
    _noted: str = ""
    _live: Live | None = None

    def __post_init__(self) -> None:
        super().__init__()
        if self.console.is_terminal:
            live = Live(
                console=self.console, refresh_per_second=2, transient=True, auto_refresh=False
            )
            self._live = self.enter_context(live)

    def changed(self, schedule: Schedule, state: JobState | None) -> None:
        """A run changed its phase, or (None) time has passed."""
        if state is None:
            self.time_left.follow(schedule.states)
            self._hear(schedule.backend.note)
        else:
            self._note(state)
            self._say(schedule, state)
        if self._live:
            self._live.update(self._table(schedule), refresh=True)

    def _hear(self, note: str) -> None:
        """What the backend waits for; on a plain log once."""
        if note and note != self._noted and not self._live:
            self.console.print(Text(f"waiting: {note}", style="yellow"), soft_wrap=True)
        self._noted = note

    def _note(self, state: JobState) -> None:
        self.time_left.note(state)
        now = time.monotonic()
        if state.phase is Phase.RUNNING:
            self._begun[state.job.run] = now
        elif state.phase is Phase.DONE and state.job.run in self._begun:
            self._spent[state.job.run] = now - self._begun[state.job.run]

    def _say(self, schedule: Schedule, state: JobState) -> None:
        """One line for each run that has ended, and on a plain log for each that starts."""
        shown = self.shown[state.job.run]
        done = counts(schedule.states)[Phase.DONE]
        place = f"[{done}/{len(schedule.states)}]"
        if state.phase is Phase.DONE:
            metrics = (self.store.run(state.job.run).result() or {}).get("metrics", {})
            value = metrics.get(shown.metric)
            told = "" if value is None else f"  {shown.metric} {value:.4g}"
            seconds = self._spent.get(state.job.run)
            took = "" if seconds is None else f"  {clock(seconds)}"
            # On a terminal the table says what is left.
            left = "" if self._live else self._left(schedule)
            line = Text(f"{place} done     {shown.label}{told}{took}{left}", style="green")
        elif state.phase in (Phase.FAILED, Phase.BLOCKED):
            word, style = ("stopped", "yellow") if schedule.stopping else (state.phase, "red")
            line = Text(f"{place} {word:8} {shown.label}  {state.reason}", style=style)
        elif state.phase is Phase.WAITING:
            line = Text(f"{place} again    {shown.label}  {state.reason}", style="yellow")
        elif self._live:
            return
        else:
            line = Text(f"{place} started  {shown.label}  {state.reason}".rstrip())
        self.console.print(line)

    def _table(self, schedule: Schedule) -> Group:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("running")
        for column in ("step", "loss", "tokens/s", "left"):
            table.add_column(column, justify="right")
        for run, state in schedule.states.items():
            if state.phase is Phase.RUNNING:
                table.add_row(Text(self.shown[run].label), *self._progress(run))
        tally = counts(schedule.states)
        words = [f"{tally[phase]} {phase}" for phase in Phase if tally[phase]]
        so_far = clock(time.monotonic() - self._started)
        words.append(f"{so_far} so far{self._left(schedule)}")
        told = self.about(self._seconds_so_far(schedule))
        above = [Text(told, style="bold")] if told else []
        below = [Text(f"waiting: {self._noted}", style="yellow")] if self._noted else []
        return Group(*above, table, *below, Text(" · ".join(words), style="bold"))

    def _seconds_so_far(self, schedule: Schedule) -> float:
        """Slot time of the runs that are done, and of those under way until now."""
        now = time.monotonic()
        running = (run for run, s in schedule.states.items() if s.phase is Phase.RUNNING)
        return sum(self._spent.values()) + sum(now - self._begun[run] for run in running)

    def _progress(self, run: str) -> tuple[str, str, str, str]:
        heartbeat = self.time_left.heartbeat(run)
        step, steps = heartbeat.get("step", 0), heartbeat.get("steps", 0)
        speed, loss = heartbeat.get("tokens_per_second"), heartbeat.get("loss")
        phase = heartbeat.get("phase") or "starting"
        return (
            f"{step:,} / {steps:,}" if step else phase,
            f"{loss:.3f}" if isinstance(loss, float) else "-",
            f"{speed:,.0f}" if isinstance(speed, int | float) else "-",
            clock(self.time_left.of_run(run)),
        )

    def _left(self, schedule: Schedule) -> str:
        return f", about {clock(self.time_left.seconds(schedule))} left{self.of}"
