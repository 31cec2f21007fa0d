"""What is going on under outputs/: the runs of each experiment's latest plan, and their states."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeper.store.errors import UserError, shown, wrong
from sweeper.store.numbers import clock
from sweeper.store.plans import newest
from sweeper.store.runs import RunStore, State, Status

BLOCKED = "blocked"
STATES = (*map(str, State), BLOCKED)


@dataclass(frozen=True)
class Line:
    """One run as `status` tells it."""

    experiment: str
    run: str
    state: str
    """A state of the store, or "blocked"."""
    reason: str
    heartbeat: Mapping[str, Any] = field(default_factory=dict)
    """Of a run that is not done: its newest beat."""
    left_s: float | None = None
    """Of a running one: seconds of training left at its newest speed."""
    took_s: float | None = None
    """Of a done one: seconds it trained."""
    estimated_s: float | None = None
    """What its plan thought that would be."""

    def described(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        numbers = {
            "left_s": self.left_s,
            "seconds": self.took_s,
            "estimated_seconds": self.estimated_s,
        }
        return {
            "experiment": self.experiment,
            "run": self.run,
            "state": self.state,
            "reason": self.reason,
            **self.heartbeat,
            **{name: number for name, number in numbers.items() if number is not None},
        }


def planned(outputs: Path, experiments: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The latest plan of each experiment named, or of all that were ever planned here.

    Raises:
        UserError: no plan has an experiment of that name.
    """
    known = newest(outputs)
    if not known:
        raise UserError(
            f"nothing has been planned under {outputs}; start with a sweep, as -m experiment=fig1"
        )
    for name in experiments:
        if name not in known:
            raise wrong(
                "experiment",
                name,
                f"one that was planned here ({', '.join(known)})",
                "correct the name, or plan it with a sweep: -m experiment=...",
            )
    return {name: known[name] for name in experiments or known}


def lines(outputs: Path, experiments: Sequence[str] = ()) -> Iterator[Line]:
    """Every run of the experiments, each once per experiment that uses it."""
    survey = _Survey(RunStore(outputs))
    for name, plan in planned(outputs, experiments).items():
        for run in dict.fromkeys(p["run"] for p in plan["points"] if p["experiment"] == name):
            yield survey.line(name, run, plan)


class _Survey:
    """Looks at each run once, however many experiments use it and runs start from it."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._seen: dict[str, Status] = {}

    def line(self, experiment: str, run: str, plan: Mapping[str, Any]) -> Line:
        status = self._status(run)
        state, reason = self._told(run, plan)
        return Line(
            experiment,
            run,
            state,
            reason,
            heartbeat=status.heartbeat or {},
            left_s=_left(status, plan["runs"].get(run)),
            took_s=status.seconds,
            estimated_s=plan.get("estimate", {}).get(run),
        )

    def _status(self, run: str) -> Status:
        if run not in self._seen:
            self._seen[run] = self._store.run(run).status()
        return self._seen[run]

    def _told(self, run: str, plan: Mapping[str, Any]) -> tuple[str, str]:
        """The state and its reason; a run nobody tried waits for its parent, if it has one."""
        status = self._status(run)
        parent = plan["runs"].get(run, {}).get("parent")
        if status.state is not State.NEW or parent is None:
            return str(status.state), status.reason
        state, reason = self._told(parent, plan)
        if state in (State.FAILED, BLOCKED):
            return BLOCKED, f"its parent {parent} {state}: {reason}"
        waits = "" if state == State.DONE else f"its parent {parent} has to be done first"
        return str(status.state), waits or status.reason


def _left(status: Status, planned_run: Mapping[str, Any] | None) -> float | None:
    heartbeat = status.heartbeat or {}
    step, steps, speed = (heartbeat.get(key) for key in ("step", "steps", "tokens_per_second"))
    if status.state is not State.RUNNING or not planned_run or not (step and steps and speed):
        return None
    return float(planned_run["size"]["tokens"] * (1 - step / steps) / speed)


def print_status(console: Console, found: Sequence[Line], *, every: bool) -> None:
    """A count per experiment, then the runs: all of them, or those neither new nor done."""
    totals = _table("experiment")
    for state in STATES:
        totals.add_column(state, justify="right")
    for name in dict.fromkeys(line.experiment for line in found):
        tally = Counter(line.state for line in found if line.experiment == name)
        totals.add_row(Text(shown(name)), *(str(tally[state] or "-") for state in STATES))
    console.print(totals)
    quiet = () if every else (State.NEW, State.DONE)
    told = [line for line in found if line.state not in quiet]
    if told:
        table = _table("run", "state", "step", "loss", "tokens/s", "left", "reason")
        for line in told:
            table.add_row(Text(line.run), line.state, *_progress(line), Text(line.reason))
        console.print()
        console.print(table)
    if measured := _measured(found):
        console.print(Text(f"\n{measured}"))


def watch(console: Console, outputs: Path, experiments: Sequence[str], *, every: bool) -> None:
    """Print the status every two seconds until Ctrl-C."""
    try:
        while True:
            found = list(lines(outputs, experiments))
            console.clear()
            print_status(console, found, every=every)
            time.sleep(2)
    except KeyboardInterrupt:
        return


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _progress(line: Line) -> tuple[str, str, str, str]:
    heartbeat = line.heartbeat
    step, loss, speed = map(heartbeat.get, ("step", "loss", "tokens_per_second"))
    return (
        f"{step:,} / {heartbeat.get('steps', 0):,}" if isinstance(step, int) else "",
        f"{loss:.3f}" if isinstance(loss, float) else "",
        f"{speed:,.0f}" if isinstance(speed, int | float) else "",
        "" if line.left_s is None else clock(line.left_s),
    )


def _measured(found: Sequence[Line]) -> str:
    """How far off the plans' estimates were for the runs that are done; empty before there are."""
    pairs = {
        line.run: (line.took_s, line.estimated_s)
        for line in found
        if line.took_s and line.estimated_s
    }
    if not pairs:
        return ""
    took, estimated = (sum(column) for column in zip(*pairs.values(), strict=True))
    ratios = sorted(one / other for one, other in pairs.values())
    runs = f"{len(pairs)} run{'s' * (len(pairs) > 1)}"
    return (
        f"estimates: training of {runs} took {clock(took)} where the plan said {clock(estimated)} "
        f"({took / estimated - 1:+.0%}); run by run {ratios[0]:.2g} to {ratios[-1]:.2g} times that."
    )
