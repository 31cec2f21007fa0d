"""Show the progress of a schedule in a terminal or a log, with an estimate of the time left.

`TimeLeft` estimates the time left with a `Throughput`. It measures the duration of each finished
run and the speed of each running job, and passes both to the `Throughput` to improve its estimates.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeper.plan.throughput import Throughput
from sweeper.run.makespan import makespan, remaining, share_done
from sweeper.run.schedule import JobState, Phase, Schedule, counts
from sweeper.store.numbers import clock
from sweeper.store.records import Record
from sweeper.store.runs import RunStore

# The fraction of a run's overhead (start and evaluation) that comes after its last training step.
AFTER = 0.85
PACE_S = 3.0  # use the speed of a run after observing it for this many seconds
HEARTBEAT_S = 60.0  # the most seconds between two lines of a log
BAR_WIDTH = 40
REST = 20  # reuse an estimate that took t seconds to compute for REST * t seconds


@dataclass
class _Running:
    """The progress of a running job.

    Attributes:
        at: the time of the last report of a new step; until the first report, the time when the
            job started.
        share: the fraction of the training steps that was done at the time `at`.
        overhead: the fraction of the overhead (start and evaluation) that was left at the time
            `at`.
        first: the pair (time, fraction of steps done) of the first report of a step; None until
            then.
    """

    at: float
    share: float
    overhead: float = 1.0
    first: tuple[float, float] | None = None


@dataclass
class TimeLeft:
    """An estimator of the time until all runs of a schedule are done.

    Call `note` when a job changes its phase, and `follow` at each poll.

    Attributes:
        store: the store of the runs.
        records: the record of each run, by run id.
        throughput: the estimator of durations. It learns from the times measured here.
        clock: a function that returns the time in seconds.
    """

    store: RunStore
    records: Mapping[str, Record]
    throughput: Throughput
    clock: Callable[[], float] = time.monotonic
    _running: dict[str, _Running] = field(default_factory=dict)
    _end: float | None = None
    _due: float = 0.0

    def __post_init__(self) -> None:
        self._shares = {run: self._share_done(run) for run in self.records}

    def _share_done(self, run: str) -> float:
        return share_done(self.store.run(run), self.records[run].steps)

    def note(self, state: JobState) -> None:
        """Start or stop measuring a job that changed its phase. Learn from a job that is done."""
        run = state.job.run
        self._due = 0.0
        self._running.pop(run, None)
        if state.phase is Phase.RUNNING:
            self._running[run] = _Running(self.clock(), self._shares[run])
        elif state.phase is Phase.WAITING:
            self._shares[run] = self._share_done(run)
        elif state.phase is Phase.DONE:
            result = self.store.run(run).result()
            if result and result.seconds is not None:
                overhead = result.overhead_seconds
                self.throughput.learn(self.records[run], result.seconds, overhead)

    def follow(self, states: Mapping[str, JobState]) -> None:
        """Learn the speeds of the running jobs from their newest heartbeats, in `states`."""
        now = self.clock()
        for run, job in self._running.items():
            record = self.records[run]
            share = states[run].heartbeat.get("step", 0) / max(record.steps, 1)
            if not share or (job.first and share == job.share):
                continue
            job.at, job.share, job.overhead = now, share, AFTER
            job.first = job.first or (now, share)
            began, first_share = job.first
            if now - began >= PACE_S:
                self.throughput.learn(record, now - began, None, share - first_share)

    def knows(self, run: str) -> bool:
        """Return whether the duration of the run with this id can be estimated."""
        return self.throughput.knows(self.records[run])

    def of_run(self, run: str) -> float:
        """Return the expected seconds until a running job ends. `run` is its run id."""
        job, whole = self._running[run], self.throughput.expected(self.records[run])
        left = whole.training * (1 - job.share) + whole.overhead * job.overhead
        return max(0.0, left - (self.clock() - job.at))

    def seconds(self, schedule: Schedule) -> float | None:
        """Return the expected seconds until all jobs end; None if a duration is unknown."""
        now = self.clock()
        if now >= self._due:
            self._end = self._estimate_end(schedule, now)
            self._due = now + REST * (self.clock() - now)
        return None if self._end is None else max(0.0, self._end - now)

    def _estimate_end(self, schedule: Schedule, now: float) -> float | None:
        waiting = [
            state.job
            for state in schedule.states.values()
            if state.phase is Phase.WAITING
        ]
        # Do not count the waiting jobs if the schedule starts no more jobs.
        if schedule.stopping or schedule.breaker.tripped:
            waiting = []
        if not all(map(self.knows, [*self._running, *(job.run for job in waiting)])):
            return None
        under_way = {run: self.of_run(run) for run in self._running}
        following = {}
        for job in waiting:
            whole = self.throughput.expected(self.records[job.run])
            following[job.run] = remaining(whole, self._shares[job.run]), job.parent
        return now + makespan(under_way, following, schedule.backend.slots)


@dataclass
class Display(ExitStack):
    """A display of the progress of a schedule: a live table in a terminal, or lines in a log.

    Call `changed` to update the display. A log gets a line for each run that ends, and a line with
    totals after a minute without other lines.

    Attributes:
        console: the terminal or the log.
        labels: the readable name of each run, by run id.
        metrics: the name of the metric to print when a run is done, by run id.
        time_left: the estimator of the time left.
        of: words to append to the time left, such as " of this round".
    """

    console: Console
    labels: Mapping[str, str]
    metrics: Mapping[str, str]
    time_left: TimeLeft
    of: str = ""
    _noted: str = ""
    _live: Live | None = None

    def __post_init__(self) -> None:
        super().__init__()
        self._started = self._printed = self._now()
        if self.console.is_terminal:
            live = Live(
                console=self.console,
                refresh_per_second=2,
                transient=True,
                auto_refresh=False,
            )
            self._live = self.enter_context(live)
            if len({label.partition("/")[0] for label in self.labels.values()}) == 1:
                # All runs belong to one experiment, so omit its name.
                self.labels = {
                    run: label.partition("/")[2] for run, label in self.labels.items()
                }

    def changed(self, schedule: Schedule, state: JobState | None) -> None:
        """Update the display. `state` is the job that changed its phase, or None at a poll."""
        if state is None:
            self.time_left.follow(schedule.states)
            note = schedule.backend.note
            # Print the note only if it is new, since each poll has it.
            if note and note != self._noted:
                self._line(Text(f"waiting: {note}", style="yellow"))
            self._noted = note
        else:
            self.time_left.note(state)
            if state.phase is not Phase.RUNNING:
                self._print_ended(schedule, state)

        if self._live:
            self._live.update(self._table(schedule), refresh=True)
        elif self._now() - self._printed >= HEARTBEAT_S:
            self._line(Text(self._totals(schedule)))

    def _now(self) -> float:
        return self.time_left.clock()

    def _print_ended(self, schedule: Schedule, state: JobState) -> None:
        """Print a line for a run that is done, failed, or will start again."""
        done = counts(schedule.states)[Phase.DONE]
        word = "again" if state.phase is Phase.WAITING else state.phase
        before = f"[{done}/{len(schedule.states)}] {word:8} "
        if state.phase is Phase.DONE:
            self._line(self._done_line(schedule, state.job.run, before))
        else:
            failed = state.phase in (Phase.FAILED, Phase.BLOCKED)
            words = f"{before}{self.labels[state.job.run]}  {state.reason}"
            self._line(Text(words, style="red" if failed else "yellow"))

    def _done_line(self, schedule: Schedule, run: str, before: str) -> Text:
        """Return the line of a run that is done: `before`, then its name, metric and duration."""
        metric = self.metrics[run]
        result, after = schedule.store.run(run).result(), ""
        if result and (value := result.metrics.get(metric)) is not None:
            after += f"  {metric} {value:.4g}"
        if result and result.seconds is not None:
            after += f"  {clock(result.seconds + (result.overhead_seconds or 0))}"
        label = Text(self.labels[run])
        if self._live:
            # Shorten the label, so that the line fits the terminal.
            room = self.console.width - len(before) - len(after)
            label.truncate(max(BAR_WIDTH, room), overflow="ellipsis")
        else:
            # Add the time left, which a live display shows below its table.
            after += self._left(schedule)
        return Text(f"{before}{label}{after}", style="green")

    def _line(self, line: Text) -> None:
        """Print a line without breaking it, so that names and paths can be copied."""
        self._printed = self._now()
        self.console.print(line, soft_wrap=True)

    def _table(self, schedule: Schedule) -> Group:
        """Return the table of running jobs, with the sweep's progress bar below it."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        # This column lacks `no_wrap`, so that rich shrinks it first in a narrow terminal. Its cells
        # have `no_wrap`, so that rich ends long names with an ellipsis.
        table.add_column("running")
        for column in ("step", "loss", "tokens/s", "left"):
            table.add_column(column, justify="right", no_wrap=True)
        for state in schedule.states.values():
            if state.phase is Phase.RUNNING:
                table.add_row(*self._row(schedule, state))

        done = counts(schedule.states)[Phase.DONE]
        width = min(BAR_WIDTH, self.console.width // 3)
        bar = ProgressBar(len(schedule.states), done, width=width)
        below = Table.grid(padding=(0, 1))
        below.add_row(bar, Text(self._totals(schedule), style="bold"))
        return Group(table, below)

    def _row(self, schedule: Schedule, state: JobState) -> list[Text | str]:
        """Return the row of a running job, with name, step, loss, speed and time left."""
        run, heartbeat = state.job.run, state.heartbeat
        step, steps = heartbeat.get("step", 0), heartbeat.get("steps", 0)
        queued = state.handle is not None and not schedule.backend.begun(state.handle)
        phase = heartbeat.get("phase") or ("queued" if queued else "starting")
        speed, loss = heartbeat.get("tokens_per_second"), heartbeat.get("loss")
        return [
            Text(self.labels[run], no_wrap=True, overflow="ellipsis"),
            f"{step:,} / {steps:,}" if step else phase,
            f"{loss:.3f}" if isinstance(loss, float) else "-",
            f"{speed:,.0f}" if isinstance(speed, int | float) else "-",
            clock(self.time_left.of_run(run)) if self.time_left.knows(run) else "-",
        ]

    def _totals(self, schedule: Schedule) -> str:
        """Return one line with the number of runs per phase, the time so far and the time left."""
        tally = counts(schedule.states)
        words = [f"{tally[phase]} {phase}" for phase in Phase if tally[phase]]
        so_far = clock(self._now() - self._started)
        return " · ".join([*words, f"{so_far} so far{self._left(schedule)}"])

    def _left(self, schedule: Schedule) -> str:
        """Return a clause with the time left, or "" if it is unknown or no job is left."""
        tally = counts(schedule.states)
        if not tally[Phase.WAITING] + tally[Phase.RUNNING]:
            return ""
        seconds = self.time_left.seconds(schedule)
        return "" if seconds is None else f", about {clock(seconds)} left{self.of}"
