"""Runs of a sweep, planned, frozen and with their data prepared, for benchmarks to execute."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

from sweeper.hydra_section import composer
from sweeper.plan.plan import Plan
from sweeper.plan.planner import Planner
from sweeper.size_server import SizeServer
from sweeper.store.runs import Run, RunStore
from tasks.parse import parse
from tasks.prepare import prepare, task_of
from tasks.task import Task


def planned(process: SizeServer, outputs: Path | str, *overrides: str) -> Plan:
    planner = Planner(composer(), process, max_runs=10_000)
    return planner.plan([*overrides, f"paths.outputs={outputs}"])


def frozen(outputs: Path, *overrides: str) -> list[Run]:
    """Return the runs of a command line; they share one text."""
    with SizeServer() as process:
        plan = planned(process, outputs, *overrides)
    store = RunStore(outputs)
    runs = [
        store.freeze({"id": run.id, "config": run.config, "size": run.size, "names": run.names})
        for run in plan.runs.values()
    ]
    opened(runs[0])
    return runs


def forget(run: Run) -> None:
    """Have a run trained again; its data stay."""
    for left in ("attempts", "result.json", "start.log"):
        path = run.path / left
        rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def opened(run: Run) -> Task:
    """Return the task of a run with its data open."""
    task = task_of(parse(run.record()["config"]))
    task.data.open(prepare(task, run.outputs))
    return task
