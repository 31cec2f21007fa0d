"""What is going on under outputs/: the runs of each experiment's latest plan, and their states."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeper.store.errors import UserError, wrong
from sweeper.store.plans import latest, plans
from sweeper.store.runs import RunStore, State, Status


@dataclass(frozen=True)
class Line:
    """One run as `status` tells it."""

    experiment: str
    run: str
    state: str
    reason: str
    beat: dict[str, Any]

    def described(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "experiment": self.experiment,
            "run": self.run,
            "state": self.state,
            "reason": self.reason,
            **self.beat,
        }


def planned(outputs: Path, experiments: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The latest plan of each experiment named, or of all that were ever planned here.

    Raises:
        UserError: no plan has an experiment of that name.
    """
    known = list(dict.fromkeys(name for plan in plans(outputs) for name in plan["experiments"]))
    if not known:
        raise UserError(
            f"nothing has been planned under {outputs}; "
            "start with: python sweep.py -m experiment=fig1"
        )
    for name in experiments:
        if name not in known:
            raise wrong(
                "experiment",
                name,
                f"one that was planned here ({', '.join(known)})",
                "correct the name, or plan it with: python sweep.py -m experiment=...",
            )
    found = {}
    for name in experiments or known:
        plan = latest(outputs, name)
        assert plan is not None
        found[name] = plan
    return found


def lines(outputs: Path, experiments: Sequence[str] = ()) -> Iterator[Line]:
    """Every run of the experiments, each once per experiment that uses it."""
    store = RunStore(outputs)
    seen: dict[str, Status] = {}
    for name, plan in planned(outputs, experiments).items():
        for run in dict.fromkeys(p["run"] for p in plan["points"] if p["experiment"] == name):
            status = seen[run] = seen.get(run) or store.run(run).status()
            beat = status.beat if status.beat and status.state is not State.DONE else {}
            yield Line(name, run, str(status.state), status.reason, dict(beat))


def print_status(console: Console, found: Sequence[Line], *, every: bool) -> None:
    """A count per experiment, then the runs: all of them, or those neither new nor done."""
    totals = Table(box=None, pad_edge=False, header_style="bold")
    totals.add_column("experiment")
    for state in State:
        totals.add_column(str(state), justify="right")
    for name in dict.fromkeys(line.experiment for line in found):
        tally = Counter(line.state for line in found if line.experiment == name)
        totals.add_row(name, *(str(tally[str(state)] or "-") for state in State))
    console.print(totals)
    quiet = () if every else (State.NEW, State.DONE)
    told = [line for line in found if line.state not in quiet]
    if told:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("run", "state", "step", "loss", "tokens/s", "reason"):
            table.add_column(column, overflow="fold")
        for line in told:
            table.add_row(Text(line.run), line.state, *_progress(line.beat), Text(line.reason))
        console.print()
        console.print(table)


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


def _progress(beat: dict[str, Any]) -> tuple[str, str, str]:
    step, loss, speed = beat.get("step"), beat.get("loss"), beat.get("tokens_per_second")
    return (
        f"{step:,} / {beat.get('steps', 0):,}" if isinstance(step, int) else "",
        f"{loss:.3f}" if isinstance(loss, float) else "",
        f"{speed:,.0f}" if isinstance(speed, int | float) else "",
    )
