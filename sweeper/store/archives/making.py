"""Puts the finished runs of an experiment into an archive, and takes their folders away."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from sweeper.store.archives.archive import archives, write
from sweeper.store.archives.reading import entries
from sweeper.store.errors import UserError, shown, wrong
from sweeper.store.files import digest_of_file
from sweeper.store.plans import planned, plans
from sweeper.store.runs import RunStore, State

_TAKEN_AWAY = ".archive."


def archive(outputs: Path, name: str) -> tuple[Path | None, int]:
    """Put the runs of an experiment that are done, and those they start from, into one file.

    Whatever ends this, each run is there: its folder goes once the archive was read back. Done
    again, it takes away what was left, and archives what has been done since.

    Returns:
        The archive, None where nothing had to be put there, and how many folders went.

    Raises:
        UserError: no such experiment, one of its runs or one that starts from them is trained at
            this moment, or none of them is done.
    """
    store = RunStore(outputs)
    runs = _runs(outputs, name)
    _refuse_while_trained(outputs, store, runs, name)
    for left in outputs.glob(f"{_TAKEN_AWAY}*.tmp"):
        shutil.rmtree(left)
    done = [run for run in runs if store.run(run).status().state is State.DONE]
    if not done:
        raise wrong("archive", name, "an experiment of which some run is done", "train it first")
    lying = {run: files_of(path) for run in done if (path := store.run(run).path).is_dir()}
    new = {run: files for run, files in lying.items() if not _kept(outputs, run, files)}
    made = write(outputs, _file_name(name), new).path if new else None
    away = Path(tempfile.mkdtemp(dir=outputs, prefix=_TAKEN_AWAY, suffix=".tmp"))
    for run in lying:
        (outputs / "runs" / run).rename(away / run)
    shutil.rmtree(away)
    return made, len(lying)


def _runs(outputs: Path, name: str) -> dict[str, None]:
    plan = planned(outputs, [name])[name]
    found: dict[str, None] = {}
    for point in plan["points"]:
        run = point["run"] if point["experiment"] == name else None
        while run and run not in found:
            found[run] = None
            run = plan["runs"].get(run, {}).get("parent")
    return found


def _refuse_while_trained(outputs: Path, store: RunStore, runs: dict[str, None], name: str) -> None:
    children = {
        run
        for plan in plans(outputs)
        for run, about in plan["runs"].items()
        if about.get("parent") in runs
    }
    for run in (*runs, *sorted(children)):
        if store.run(run).status().state is State.RUNNING:
            raise UserError(f"{shown(name)}: run {run} is being trained; archive it afterwards.")


def _file_name(experiment: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", experiment).lstrip(".-")[:100] or "runs"


def files_of(folder: Path, below: str = "") -> dict[str, Path]:
    """What is whole of a run by name below its folder: a dot in front is of something unwritten."""
    here = folder / below if below else folder
    found = {below + name: here / name for name in entries(here) if name[0] != "."}
    for name in entries(here, folders=True):
        found |= files_of(folder, f"{below}{name}/")
    return found


def _kept(outputs: Path, run: str, files: dict[str, Path]) -> bool:
    """Whether an archive holds these very files: whoever made it could not take them away."""
    return any(one.holds(run, _digests(files)) for one in archives(outputs) if run in one.runs())


def _digests(files: dict[str, Path]) -> dict[str, str]:
    return {name: digest_of_file(path) for name, path in files.items()}
