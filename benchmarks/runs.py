"""Runs of a sweep, planned, frozen and with their data prepared, for benchmarks to execute."""

from __future__ import annotations

from pathlib import Path

from sweeper.hydra_section import composer
from sweeper.model_process import ModelProcess
from sweeper.plan.planner import Planner
from sweeper.store.runs import Run, RunStore
from tasks.parse import parse
from tasks.prepare import prepare, task_of
from tasks.task import Task


def frozen(outputs: Path, *overrides: str) -> list[Run]:
    """Return the runs of a command line; they share one text."""
    with ModelProcess() as process:
        planner = Planner(composer(), process, max_runs=1000)
        plan = planner.plan([*overrides, f"paths.outputs={outputs}"])
    store = RunStore(outputs)
    runs = [
        store.freeze({"id": run.id, "config": run.config, "size": run.size, "names": run.names})
        for run in plan.runs.values()
    ]
    opened(runs[0])
    return runs


def opened(run: Run) -> Task:
    """Return the task of a run with its data open."""
    task = task_of(parse(run.record()["config"]))
    task.data.open(prepare(task, run.outputs))
    return task
