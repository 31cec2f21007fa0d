"""What a person sees while a sweep runs: a live table on a terminal, a line per event elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sweeper.run.job_states import JobState, Phase, counts
from sweeper.run.schedule import Schedule
from sweeper.run.time_left import TimeLeft
from sweeper.store.numbers import clock
from sweeper.store.runs import RunStore


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
