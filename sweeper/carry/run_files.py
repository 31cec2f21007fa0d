"""What there is of a run to carry: its record, its attempts, its result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from sweeper.carry.archive import Content
from sweeper.store.archives.archive import archived, find
from sweeper.store.attempts import Cause
from sweeper.store.runs import Run

CUT_OFF = json.dumps({"cause": Cause.INTERRUPTED, "message": "cut off", "traceback": ""}) + "\n"
"""The last word of an attempt that left none: elsewhere nobody could know that it is over."""


def run_files(run: Run, *, weights: bool = True) -> dict[str, Content]:
    """The files of a run that nobody trains now, by their names below the outputs folder.

    Without `weights` what it learned and what it could be continued from stay behind.
    """
    packed = None if run.path.is_dir() else find(run.outputs, run.id)
    if packed and run.id in archived(run.outputs):
        names = packed.names(run.id)
        return {f"runs/{run.id}/{name}": packed.read(run.id, name) for name in names}
    found = _named(run.outputs, run.path.glob("*.json"))
    done_by = (run.result() or {}).get("attempt")
    for attempt in run.attempts():
        found |= _named(run.outputs, attempt.path.iterdir())
        if attempt.exit() is None and attempt.number != done_by:
            last = attempt.path.relative_to(run.outputs) / "exit.json"
            found[last.as_posix()] = CUT_OFF.encode()
        if weights:
            found |= _named(run.outputs, iter(attempt.checkpoint_files("*")))
    return found


def folder_files(outputs: Path, folder: Path) -> dict[str, Content]:
    """All files below a folder, by their names below the outputs folder."""
    return _named(outputs, folder.rglob("*"))


def _named(outputs: Path, paths: Iterator[Path]) -> dict[str, Content]:
    """What is whole of it: names with a dot in front are being written."""
    return {
        path.relative_to(outputs).as_posix(): path
        for path in paths
        if path.is_file() and not path.is_symlink() and not path.name.startswith(".")
    }
