"""Brings results home: runs that were packed here and trained elsewhere, as if trained here."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeper.carry.archive import unpack
from sweeper.store.archives.reading import present
from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import make_directory, publish, read_bytes, sync_directory
from sweeper.store.identity import digest_of, identity
from sweeper.store.runs import Run, RunStore, State

_PLACE = re.compile(r"runs/[^/]+/([^/]+\.json|attempts/\d{4,9}/([^/]+|checkpoints/[^/]+))")


@dataclass
class Merged:
    """What came of merging: run ids, and sentences on those that were left as they are here."""

    done: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    """What was here before."""
    kept: list[str] = field(default_factory=list)

    def in_words(self) -> str:
        """All of it in a sentence."""
        parts = [f"{len(self.done)} done"]
        parts += [f"{len(self.unfinished)} not done there"] if self.unfinished else []
        parts += [f"{len(self.known)} known before"] if self.known else []
        parts += [f"{len(self.kept)} left as they are here"] if self.kept else []
        return f"runs from elsewhere: {', '.join(parts)}"


def merge(outputs: Path, path: Path) -> Merged:
    """Put the runs of a results file where they would lie had they been trained here.

    What is here comes first: a run that was trained here, too, since it was packed stays as it is.

    Raises:
        UserError: it is not whole, or holds a run whose record is not here; nothing was merged.
    """
    store = RunStore(outputs)
    store.check_writable()
    # On the same file system, so that attempts only have to be renamed.
    with tempfile.TemporaryDirectory(dir=outputs, prefix=".merge.", suffix=".tmp") as folder:
        manifest = unpack(path, Path(folder))
        _check_names(path, manifest)
        pairs = [(store.run(id), RunStore(Path(folder)).run(id)) for id in manifest["runs"]]
        for here, there in pairs:
            _check(path, here, there)
        merged = Merged()
        for here, there in pairs:
            _merge(here, there, merged)
    return merged


def _check_names(path: Path, manifest: Mapping[str, Any]) -> None:
    if manifest["kind"] != "results":
        raise UserError(
            f"{sanitize(path)} is a {sanitize(manifest['kind'], 80)}, not what run.py left."
        )
    for name in manifest["files"]:
        if not _PLACE.fullmatch(name) or name.split("/")[1] not in manifest["runs"]:
            raise UserError(
                f"{sanitize(path)} holds {sanitize(name, 100)}, which is no file of its runs."
            )


def _check(path: Path, here: Run, there: Run) -> None:
    """Refuse a run that was not planned here, or whose files do not fit each other."""
    if not present(here.path / "run.json"):
        raise UserError(
            f"{sanitize(path)} holds run {here.id}, which was never planned under "
            f"{sanitize(here.outputs)}; merge it where it was packed."
        )
    mine, theirs = (digest_of(identity(run.record()["config"])) for run in (here, there))
    result = there.result()
    numbers = [attempt.number for attempt in there.attempts()]
    if mine != theirs or (result is not None and result["attempt"] not in numbers):
        reason = "another config" if mine != theirs else "a result without its attempt"
        raise UserError(f"{sanitize(path)} has {reason} for run {here.id}; bring it here again.")


def _merge(here: Run, there: Run, merged: Merged) -> None:
    status = here.status()
    mine, theirs = _attempts(here), _attempts(there)
    if status.state is State.DONE and _metrics(here) == _metrics(there):
        merged.known.append(here.id)
    elif status.state in (State.RUNNING, State.DONE) or mine.items() - theirs.items():
        merged.kept.append(f"{here.id} was trained here, too, since it was packed: {status.reason}")
    elif mine == theirs and there.result() is None:
        merged.known.append(here.id)
    else:
        _install(here, there, sorted(theirs.keys() - mine.keys()))
        (merged.unfinished if there.result() is None else merged.done).append(here.id)


def _install(here: Run, there: Run, numbers: list[int]) -> None:
    """The attempts that are not here, each in one step; the result last."""
    folder = here.path / "attempts"
    make_directory(folder)
    for number in numbers:
        make_directory(there.attempt(number).checkpoint_dir)
        there.attempt(number).path.rename(here.attempt(number).path)
    sync_directory(folder)
    names = sorted(path.name for path in there.path.glob("*.json") if path.name != "run.json")
    for name in sorted(names, key=lambda name: name == "result.json"):
        publish(here.path / name, read_bytes(there.path / name) or b"")


def _attempts(run: Run) -> dict[int, bytes | None]:
    """What says of each attempt which process made it."""
    return {one.number: read_bytes(one.path / "attempt.json") for one in run.attempts()}


def _metrics(run: Run) -> Any:
    return (run.result() or {}).get("metrics")
