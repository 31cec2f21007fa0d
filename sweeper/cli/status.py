"""What is going on under outputs/: the runs of each experiment's latest plan, and their states."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeper.plan.grid import describe_values as in_words
from sweeper.store.code import COMMIT, differing, loaded_code, state_of
from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import present
from sweeper.store.numbers import clock
from sweeper.store.plans import planned
from sweeper.store.runs import Run, RunStore, State, Status, lineage

BLOCKED = "blocked"
STATES = (*map(str, State), BLOCKED)
NAMED = 3  # runs in a line; --all says it of each


@dataclass(frozen=True)
class Line:
    """One run as `status` tells it."""

    experiment: str
    run: str
    setting: str
    """The arm and what is special about the run."""
    state: str
    """A state of the store, or "blocked"."""
    reason: str
    heartbeat: Mapping[str, Any] = field(default_factory=dict)
    """Of a run that is not done: its newest beat."""
    left_s: float | None = None
    """Of a running one: seconds of training left at its newest speed."""
    seconds: float | None = None
    """Of a done one: how long it trained."""
    estimated_seconds: float | None = None
    """What its plan thought that would be."""
    damaged: bool = False
    """Whether it counts as failed because its files cannot be read."""
    changed: Sequence[str] | None = None
    """The parts of the code that are no longer what trained it."""

    def described(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        told = asdict(self)
        heartbeat, damaged = told.pop("heartbeat"), told.pop("damaged")
        told |= heartbeat | ({"damaged": True} if damaged else {})
        return {key: value for key, value in told.items() if value is not None}


def lines(outputs: Path, experiments: Sequence[str] = ()) -> Iterator[Line]:
    """Every run of the experiments, each once per experiment that uses it."""
    store = RunStore(outputs)
    # Each run is looked at once, however many experiments use it and runs start from it.
    status_of = cache(lambda run: _status(store.run(run)))
    now = loaded_code()
    state = {COMMIT: now.revision, **now.parts()}
    changed = cache(lambda run: _changed(store.run(run), status_of(run), state))
    for name, plan in planned(outputs, experiments).items():
        own: dict[str, Mapping[str, Any]] = {}
        for point in (one for one in plan["points"] if one["experiment"] == name):
            own.setdefault(point["run"], point)
        for run, point in own.items():
            status = status_of(run)
            yield Line(
                name,
                run,
                _setting(point),
                *_told(run, plan, status_of),
                heartbeat=status.heartbeat or {},
                damaged=status.state is State.FAILED and not status.attempt,
                left_s=_left(status, plan["runs"].get(run)),
                seconds=status.seconds,
                estimated_seconds=plan.get("estimate", {}).get(run),
                changed=changed(run) or None,
            )


def _status(run: Run) -> Status:
    """As its record has it too, which whoever only looks how far it is does not ask."""
    try:
        if present(run.path / "run.json"):
            run.record()
    except UserError as error:
        return Status(State.FAILED, sanitize(error), 0)
    return run.status()


def _told(run: str, plan: Mapping[str, Any], status_of: Callable[[str], Status]) -> tuple[str, str]:
    """The state and its reason; a run nobody tried waits for its parent, if it has one."""
    status = status_of(run)
    parent = plan["runs"].get(run, {}).get("parent")
    if status.state is not State.NEW or parent is None:
        return str(status.state), status.reason
    state, reason = _told(parent, plan, status_of)
    if state in (State.FAILED, BLOCKED):
        return BLOCKED, f"its parent {parent} {state}: {reason}"
    waits = "" if state == State.DONE else f"its parent {parent} has to be done first"
    return str(status.state), waits or status.reason


def _changed(run: Run, status: Status, now: Mapping[str, str]) -> list[str]:
    """The parts of the code that changed since a run was trained, or began to be."""
    try:
        states = [state_of(attempt) for attempt in lineage(run, status.attempt)]
    except UserError:  # which its status tells
        return []
    return sorted({part for state in states for part in differing([state, now])})


def _left(status: Status, planned_run: Mapping[str, Any] | None) -> float | None:
    heartbeat = status.heartbeat or {}
    step, steps, speed = (heartbeat.get(key) for key in ("step", "steps", "tokens_per_second"))
    if isinstance(speed, str) or not (step and steps and speed):
        return None
    if status.state is not State.RUNNING or not planned_run:
        return None
    return float(planned_run["size"]["tokens"] * (1 - step / steps) / speed)


def print_status(console: Console, found: Sequence[Line], *, every: bool) -> None:
    """A count per experiment and of all runs; then the runs: all, or those neither new nor done.

    A run that several experiments use is told once, as the first of them names it.
    """
    totals = Table(box=None, pad_edge=False, header_style="bold")
    totals.add_column("experiment", overflow="fold")
    for state in (*STATES, "all"):
        totals.add_column(state, justify="right", no_wrap=True)
    names = dict.fromkeys(line.experiment for line in found)
    runs: dict[str, Line] = {}
    for line in found:
        runs.setdefault(line.run, line)
    for name in names:
        _add(totals, sanitize(name), [line for line in found if line.experiment == name])
    if len(names) > 1:
        _add(totals, "all", list(runs.values()))
    console.print(totals)
    quiet = () if every else (State.NEW, State.DONE)
    told = [line for line in runs.values() if line.state not in quiet]
    if told:
        table = Table(box=None, pad_edge=False, show_header=False)
        for line in told:
            parts = (line.reason, *_progress(line), _since(line.changed))
            detail = ", ".join(part for part in parts if part)
            setting = f"{sanitize(line.experiment)}/{sanitize(line.setting, 400)}"
            table.add_row(line.state, Text(f"{setting}\n{line.run}  {sanitize(detail, 1000)}"))
        console.print()
        console.print(table)
    for words in filter(None, (_measured(found), *_earlier(runs.values()))):
        console.print(Text(f"\n{words}"))


def watch(console: Console, outputs: Path, experiments: Sequence[str], *, every: bool) -> None:
    """Print the status every two seconds until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        while True:
            found = list(lines(outputs, experiments))
            console.clear()
            print_status(console, found, every=every)
            time.sleep(2)


def _setting(point: Mapping[str, Any]) -> str:
    """A point of a plan in words, with its seed."""
    words = [point.get("arm"), point.get("task"), in_words(point.get("values", {}))]
    return " ".join([*(word for word in words if word), f"seed={point.get('seed')}"])


def _add(totals: Table, name: str, lines: Sequence[Line]) -> None:
    tally = Counter(line.state for line in lines)
    counts = [*(tally[state] for state in STATES), len(lines)]
    totals.add_row(Text(name), *(str(count or "-") for count in counts))


def _progress(line: Line) -> tuple[str, ...]:
    heartbeat = line.heartbeat
    step, loss, speed = map(heartbeat.get, ("step", "loss", "tokens_per_second"))
    untold = line.state == State.FAILED and isinstance(step, int)  # other reasons say the step
    return (
        f"step {step:,} of {heartbeat.get('steps', 0):,}" if untold else "",
        f"loss {loss:.3f}" if isinstance(loss, float) else "",
        f"{speed:,.0f} tokens/s" if isinstance(speed, int | float) else "",
        "" if line.left_s is None else f"{clock(line.left_s)} left",
    )


def _since(parts: Sequence[str] | None) -> str:
    return f"{', '.join(parts)} changed since" if parts else ""


def _earlier(runs: Iterable[Line]) -> Iterator[str]:
    """By task, the runs that an earlier state of the code has trained."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in runs:
        if line.changed:
            task = line.run.partition("-")[0]
            found.setdefault((task, _since(line.changed)), []).append(line.run)
    for (task, since), ids in found.items():
        few = ", ".join(ids[:NAMED]) + (f" and {len(ids) - NAMED} more" if ids[NAMED:] else "")
        yield f"{task}: {len(ids)} of an earlier state of the code ({since}): {few}"


def _measured(found: Sequence[Line]) -> str:
    """How far off the plans' estimates were for the runs that are done; empty before there are."""
    both = {line.run: (line.seconds, line.estimated_seconds) for line in found}
    pairs = [(one, other) for one, other in both.values() if one and other]
    if not pairs:
        return ""
    took, estimated = (sum(column) for column in zip(*pairs, strict=True))
    ratios = sorted(one / other for one, other in pairs)
    runs = f"{len(pairs)} run{'s' * (len(pairs) > 1)}"
    return (
        f"estimates: training of {runs} took {clock(took)} where the plan said {clock(estimated)} "
        f"({took / estimated - 1:+.0%}); run by run {ratios[0]:.2g} to {ratios[-1]:.2g} times that."
    )
