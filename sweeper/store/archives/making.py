"""Puts the finished runs of an experiment into an archive, and takes their folders away."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from sweeper.store.archives.archive import archives, write
from sweeper.store.archives.reading import entries
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.files import digest_of_file
from sweeper.store.plans import planned, plans, runs_of
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
    runs = runs_of(planned(outputs, [name])[name], name)
    _refuse_while_trained(outputs, store, runs, name)
    for left in outputs.glob(f"{_TAKEN_AWAY}*.tmp"):
        shutil.rmtree(left)
    done = [run for run in runs if store.run(run).status().state is State.DONE]
    if not done:
        raise invalid_value(
            "archive", name, "an experiment of which some run is done", "train it first"
        )
    lying = {run: files_of(path) for run in done if (path := store.run(run).path).is_dir()}
    new = {run: files for run, files in lying.items() if not _kept(outputs, run, files)}
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).lstrip(".-")[:100] or "runs"
    made = write(outputs, plain, new).path if new else None
    away = Path(tempfile.mkdtemp(dir=outputs, prefix=_TAKEN_AWAY, suffix=".tmp"))
    for run in lying:
        (outputs / "runs" / run).rename(away / run)
    shutil.rmtree(away)
    return made, len(lying)


def _refuse_while_trained(outputs: Path, store: RunStore, runs: dict[str, None], name: str) -> None:
    children = {
        run
        for plan in plans(outputs)
        for run, about in plan["runs"].items()
        if about.get("parent") in runs
    }
    for run in (*runs, *sorted(children)):
        if store.run(run).status().state is State.RUNNING:
            raise UserError(f"{sanitize(name)}: run {run} is being trained; archive it afterwards.")


def files_of(folder: Path, below: str = "") -> dict[str, Path]:
    """What is whole of a run by name below its folder: a dot in front is of something unwritten."""
    here = folder / below if below else folder
    found = {below + name: here / name for name in entries(here) if name[0] != "."}
    for name in entries(here, folders=True):
        found |= files_of(folder, f"{below}{name}/")
    return found


def _kept(outputs: Path, run: str, files: dict[str, Path]) -> bool:
    """Whether an archive holds these very files: whoever made it could not take them away."""
    holding = [archive for archive in archives(outputs) if run in archive.runs()]
    digests = {name: digest_of_file(path) for name, path in files.items() if holding}
    return any(archive.holds(run, digests) for archive in holding)
