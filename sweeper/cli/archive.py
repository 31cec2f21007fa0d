"""The archive command: finished runs of an experiment go into one file, which replaces folders."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from sweeper.store.archive import archives, files_below, write_runs
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.files import digest_of_file
from sweeper.store.plans import planned, plans, runs_of
from sweeper.store.runs import RunStore, State

_TAKEN_AWAY = ".archive."


def archive(outputs: Path, name: str) -> tuple[Path | None, int]:
    """Put the finished runs of an experiment, and those they start from, into one file.

    A run is never lost: its folder goes only after the archive was read back. The same command
    again finishes an interrupted one, and archives the runs that were finished since.

    Returns:
        The archive, None if all runs were archived already, and the number of folders removed.

    Raises:
        UserError: no such experiment, one of its runs or one that starts from them is in training,
            or none of them is done.
    """
    store = RunStore(outputs)
    runs = runs_of(planned(outputs, [name])[name], name)
    children = {
        run
        for plan in plans(outputs)
        for run, about in plan["runs"].items()
        if about.get("parent") in runs
    }
    for run in (*runs, *sorted(children)):
        if store.run(run).status().state is State.RUNNING:
            raise UserError(f"{sanitize(name)}: run {run} is in training; archive it afterwards.")
    for left in outputs.glob(f"{_TAKEN_AWAY}*.tmp"):
        shutil.rmtree(left)
    done = [store.run(run) for run in runs if store.run(run).status().state is State.DONE]
    if not done:
        expected = "an experiment with at least 1 finished run"
        raise invalid_value("archive", name, expected, "train it first")
    folders = [run.path for run in done if run.path.is_dir()]
    new = []
    for folder in folders:  # an interrupted command may have left a folder with its archive
        known = [one.runs[folder.name] for one in archives(outputs) if folder.name in one.runs]
        names = files_below(folder) if known else []
        if not known or {name: digest_of_file(folder / name) for name in names} not in known:
            new.append(folder)
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).lstrip(".-")[:100] or "runs"
    made = write_runs(outputs, plain, new) if new else None
    away = Path(tempfile.mkdtemp(dir=outputs, prefix=_TAKEN_AWAY, suffix=".tmp"))
    for folder in folders:
        folder.rename(away / folder.name)
    shutil.rmtree(away)
    return made, len(folders)
