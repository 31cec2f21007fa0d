"""The command `status`, which prints the states of the runs of each experiment's newest plan."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeper.stages.terminal import print_lines
from sweeper.store.errors import UserError, sanitize
from sweeper.store.numbers import clock
from sweeper.store.plans import command_of, in_words, planned
from sweeper.store.runs import Run, RunStore, State, Status

BLOCKED = "blocked"
STATES = (*map(str, State), BLOCKED)


@dataclass(frozen=True)
class Line:
    """The status of one run in one experiment.

    Attributes:
        experiment: the name of the experiment.
        run: the id of the run.
        setting: a description of the run: arm, task, values and seed.
        state: the state of the run, or "blocked" if the run cannot start because its parent failed.
        reason: the reason for the state.
        heartbeat: the last progress that the run's process reported, such as `step` and `loss`. It
            is {} if the process reported none, or if the run is done.
        left_s: the seconds of training left at the current speed; None if the run is not training.
        seconds: the seconds that training took; None if the run is not done.
        damaged: whether the state is "failed" because a file cannot be read.
        command: the command that planned the experiment.
    """

    experiment: str
    run: str
    setting: str
    state: str
    reason: str
    heartbeat: Mapping[str, Any] = field(default_factory=dict)
    left_s: float | None = None
    seconds: float | None = None
    damaged: bool = False
    command: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return the fields that are not None, as plain data for `--json`.

        The keys of `heartbeat`, such as `step`, become keys of the result. Leave out `damaged` if
        it is False.
        """
        data = asdict(self)
        heartbeat, damaged = data.pop("heartbeat"), data.pop("damaged")
        data |= heartbeat | ({"damaged": True} if damaged else {})
        return {key: value for key, value in data.items() if value is not None}


def lines(
    outputs: Path, experiments: Sequence[str] = (), store: RunStore | None = None
) -> Iterator[Line]:
    """Yield a `Line` for each run of each experiment. Without `experiments`, include all of them.

    To poll, pass the same `store` to each call. The store compares the heartbeats of successive
    calls, and so notices that a process on another machine has ended.
    """
    store = store or RunStore(outputs)
    # Read each run only once, even if several experiments use it or other runs start from it.
    status_of = cache(lambda run: _status(store.run(run)))
    for name, plan in planned(outputs, experiments).items():
        own: dict[str, Mapping[str, Any]] = {}
        for point in (one for one in plan["points"] if one["experiment"] == name):
            own.setdefault(point["run"], point)
        for run, point in own.items():
            status = status_of(run)
            yield Line(
                name,
                run,
                in_words(point),
                *_state(run, plan, status_of),
                heartbeat=status.heartbeat or {},
                damaged=status.state is State.FAILED and not status.attempt,
                left_s=_left(status, plan["runs"].get(run)),
                seconds=status.seconds,
                command=command_of(plan),
            )


def _status(run: Run) -> Status:
    """Return the status of a run. Count a run with a damaged record as failed."""
    status = run.status()
    try:
        if status.state is not State.NEW or (run.path / "run.json").is_file():
            run.record()
    except UserError as error:
        return Status(State.FAILED, sanitize(error), 0)
    return status


def _state(
    run: str, plan: Mapping[str, Any], status_of: Callable[[str], Status]
) -> tuple[str, str]:
    """Return the state of a run and the reason for it.

    If the run has not begun and its parent failed or is blocked, the state is "blocked".
    """
    status = status_of(run)
    own = str(status.state), status.reason
    parent = plan["runs"].get(run, {}).get("parent")
    if status.state is not State.NEW or parent is None:
        return own
    state, reason = _state(parent, plan, status_of)
    if state in (State.FAILED, BLOCKED):
        verb = "failed" if state == State.FAILED else "is blocked"
        return BLOCKED, f"its parent {parent} {verb}: {reason}"
    if state != State.DONE:
        return str(State.NEW), f"it waits for its parent {parent}"
    return own


def _left(status: Status, planned_run: Mapping[str, Any] | None) -> float | None:
    """Return the seconds of training left; None if the run is not in training at a known speed."""
    heartbeat = status.heartbeat or {}
    step, steps, speed = (
        heartbeat.get(key) for key in ("step", "steps", "tokens_per_second")
    )
    if isinstance(speed, str) or not (step and steps and speed):
        return None
    if status.state is not State.RUNNING or not planned_run:
        return None
    return float(planned_run["size"]["tokens"] * (1 - step / steps) / speed)


def print_status(console: Console, found: Sequence[Line], *, every: bool) -> None:
    """Print how many runs of each experiment are in each state, followed by a list of runs.

    If `every` is True, list all runs. Otherwise, list the runs that are neither new nor done. A run
    that several experiments use is listed only for the first of them.
    """
    totals = Table(box=None, pad_edge=False, header_style="bold")
    totals.add_column("experiment", overflow="fold")
    states = [state for state in STATES if any(line.state == state for line in found)]
    for state in (*states, "all"):
        totals.add_column(state, justify="right", no_wrap=True)

    commands = {line.experiment: line.command for line in found}
    runs: dict[str, Line] = {}
    for line in found:
        runs.setdefault(line.run, line)
    for name in commands:
        of_name = [line for line in found if line.experiment == name]
        totals.add_row(Text(sanitize(name)), *_tally(of_name, states))
    if len(commands) > 1:
        totals.add_row(Text("all"), *_tally(runs.values(), states))
    console.print(totals)
    for name, command in commands.items():
        print_lines(console, sanitize(f"{name}: {command}", 1000))

    quiet = () if every else (State.NEW, State.DONE)
    listed = [line for line in runs.values() if line.state not in quiet]
    if len(listed) < len(runs):
        console.print(
            "--all lists every run with its id and its description. Commands such as forget accept "
            "either of them."
        )

    if listed:
        table = Table(box=None, pad_edge=False, show_header=False)
        for line in listed:
            parts = (line.reason, *_progress(line))
            detail = ", ".join(part for part in parts if part)
            setting = f"{sanitize(line.experiment)}/{sanitize(line.setting, 400)}"
            table.add_row(
                line.state, Text(f"{setting}\n{line.run}  {sanitize(detail, 1000)}")
            )
        console.print()
        console.print(table)


def watch(
    console: Console, outputs: Path, experiments: Sequence[str], *, every: bool
) -> None:
    """Print the status every two seconds until Ctrl-C."""
    store = RunStore(outputs)
    with suppress(KeyboardInterrupt):
        while True:
            found = list(lines(outputs, experiments, store))
            console.clear()
            print_status(console, found, every=every)
            time.sleep(2)


def _tally(lines: Collection[Line], states: Sequence[str]) -> list[str]:
    """Return the number of runs in each of `states`, followed by the total number."""
    tally = Counter(line.state for line in lines)
    return [str(tally[state] or "-") for state in states] + [str(len(lines))]


def _progress(line: Line) -> tuple[str, ...]:
    """Return step, loss, speed and time left as phrases. Return "" for each unknown one."""
    heartbeat = line.heartbeat
    step, loss, speed = map(heartbeat.get, ("step", "loss", "tokens_per_second"))
    # Show the step only for failed runs. In other states, `line.reason` already has it.
    show_step = line.state == State.FAILED and isinstance(step, int)
    return (
        f"step {step:,} of {heartbeat.get('steps', 0):,}" if show_step else "",
        f"loss {loss:.3f}" if isinstance(loss, float) else "",
        f"{speed:,.0f} tokens/s" if isinstance(speed, int | float) else "",
        "" if line.left_s is None else f"{clock(line.left_s)} left",
    )
