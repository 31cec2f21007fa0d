"""`python -m tasks.prepare RUN` prepares a run's data, once for all runs that need the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import filelock

from sweeper.store import registry
from sweeper.store.errors import UserError
from sweeper.store.files import make_directory
from sweeper.store.runs import Run
from tasks.command import directory

if TYPE_CHECKING:
    from tasks.config.sections import RunConfig
    from tasks.task import Task


def task_of(config: RunConfig) -> Task:
    """Return the task that a config names."""
    from tasks.task import Task  # as below: nothing heavy is imported before it is needed

    task: Task = registry.class_of(registry.TASKS, config.task.name, "task.name", Task)(config)
    return task


def prepare(task: Task, outputs: Path) -> Path:
    """Return the folder of the task's prepared data, complete; other processes wait meanwhile."""
    folder = outputs / "data" / task.data.folder_name()
    make_directory(folder.parent)
    with filelock.FileLock(folder.with_name(f"{folder.name}.lock")):
        task.data.prepare(folder)
    return folder


def main(argument: str) -> int:
    """Prepare the data of the run in a directory; the exit code is 1 if it cannot be."""
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
