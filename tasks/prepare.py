"""`python -m tasks.prepare RUN` prepares a run's data, once for all runs that need the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.store import registry
from sweeper.store.errors import UserError
from sweeper.store.files import child, make_directory
from sweeper.store.liveness import held
from sweeper.store.runs import Run
from tasks.command import directory
from tasks.digests import check_digests, write_digests

if TYPE_CHECKING:
    from tasks.config.sections import RunConfig
    from tasks.task import Task


def task_of(config: RunConfig) -> Task:
    """Return the task of a config."""
    from tasks.task import Task  # heavy modules are imported when needed

    task: Task = registry.class_of(registry.TASKS, config.task.name, "task.name", Task)(config)
    return task


def prepare(task: Task, outputs: Path) -> Path:
    """Prepare the task's data and return its folder; other processes wait meanwhile."""
    make_directory(outputs / "data")
    folder = child(outputs / "data", task.data.folder_name())
    with held(folder):
        task.data.prepare(folder)
        if folder.is_dir():  # drawn examples have no folder
            write_digests(folder)
    return folder


def open_data(task: Task, outputs: Path) -> dict[str, Any]:
    """Open the task's data and return the facts that a result records of them.

    Raises:
        UserError: the data cannot be prepared, or changed since.
    """
    folder = prepare(task, outputs)
    facts = {"sha256": check_digests(folder)} if folder.is_dir() else {}
    return {**task.data.open(folder), **facts}


def main(argument: str) -> int:
    """Prepare the data of the run in a directory; return 1 if that fails."""
    from tasks.parse import parse

    try:
        run = Run.open(Path(argument))
        prepare(task_of(parse(run.record()["config"])), run.outputs)
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(directory("tasks.prepare", __doc__)))
