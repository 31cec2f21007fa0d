"""One try at a run: a directory that only the process which claimed it writes below."""

from __future__ import annotations

import errno
import fnmatch
import itertools
import re
import secrets
import shutil
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from sweeper.store.archives.reading import entries
from sweeper.store.errors import UserError
from sweeper.store.files import (
    make_directory,
    publish_json,
    read_bytes,
    read_object,
    sync_directory,
)
from sweeper.store.liveness import HeartbeatFile, Watcher, alive, identity, read_heartbeat
from sweeper.store.metrics import MetricsWriter, spelled
from sweeper.store.validate import NUMBER

START_LOG = "start.log"  # beside the record

_NUMBERED = re.compile(r"\d{4,9}")

_INFO = {
    "continues": int,
    "code": (str, None),
    "code_parts": {str: str},
    "versions": {str: str},
    "hardware": dict,
}
_BEAT = {"step": int, "steps": int, "tokens_per_second": (*NUMBER, str)}


class Cause(StrEnum):
    """Why an attempt ended."""

    DONE = "done"
    INTERRUPTED = "interrupted"
    NAN = "nan"
    OUT_OF_GPU_MEMORY = "out_of_gpu_memory"
    OUT_OF_HOST_MEMORY = "out_of_host_memory"
    DISK_FULL = "disk_full"
    CONFIG = "config"
    DATA = "data"
    HANG = "hang"
    CRASH = "crash"
    # Never written, only derived: nobody said anything, or said "done" and left no result.
    KILLED = "killed"
    NO_RESULT = "no_result"


class Attempt:
    """One attempt, to write (by the process that claimed it) or to read (by anyone)."""

    def __init__(self, path: Path, watcher: Watcher) -> None:
        self.path = path
        self.number = int(path.name)
        self.log_path = path / "log.txt"
        self._watcher = watcher
        self._fields: dict[str, Any] = {}
        self._beats = HeartbeatFile(path / "beat.json")
        self._heartbeats = 0
        self._work = 0
        self._lock = threading.Lock()

    @property
    def checkpoint_dir(self) -> Path:
        """Where the checkpoints of this attempt lie; made by the claim."""
        return self.path / "checkpoints"

    def info(self) -> dict[str, Any]:
        """What attempt.json says: number, process, resumed_from, and what the claim was given."""
        return read_object(self.path / "attempt.json", shape=_INFO) or {}

    def heartbeat(self, **fields: Any) -> None:
        """Tells that the job lives and how far it is; fields not given keep their last value.

        Without any it is the regular one, of which file servers are told. May be called from
        several threads. A hint only: that it cannot be written (a full disk) never ends a job, the
        next checkpoint will.
        """
        with suppress(OSError), self._lock:
            self._heartbeats += 1
            self._fields |= {name: spelled(value) for name, value in fields.items()}
            value = {"beat": self._heartbeats, "work": self._work, **self._fields}
            self._beats.write(value, told=not fields)

    def advance(self) -> None:
        """Counts a batch trained or evaluated; a heartbeat alone is no progress."""
        self._work += 1

    def last_heartbeat(self) -> dict[str, Any] | None:
        """The newest heartbeat; None if there is none, or none that can be read is there."""
        return read_heartbeat(self.path / "beat.json", _BEAT)

    def metrics(self) -> MetricsWriter:
        """The writer of this attempt's metrics.jsonl."""
        return MetricsWriter(self.metrics_path)

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    def log_end(self, most: int) -> str:
        """The last lines of log.txt, `most` bytes together or less; empty if there is none."""
        data = read_bytes(self.log_path, most + 1) or b""
        if len(data) > most:
            data = data.partition(b"\n")[2] or data[1:]  # without the line that it begins in
        return data.decode("utf-8", "replace")

    def finish(
        self, cause: str, message: str = "", traceback: str = "", *, overrule: bool = False
    ) -> bool:
        """Says why the attempt ended; False if that was said before: the first word stays.

        `overrule` is for whoever had to end the attempt, once its process is gone.
        """
        value = {"cause": Cause(cause).value, "message": message, "traceback": traceback}
        return publish_json(self.path / "exit.json", value, replace=overrule)

    def clear(self) -> None:
        """Takes away the heartbeat of an attempt whose result says all there is to say."""
        with self._lock:
            self._beats.close(remove=True)

    def exit(self) -> dict[str, Any] | None:
        """Why the attempt ended: cause, message, traceback; None if nobody said.

        The one that made its run done left its word in result.json.
        """
        return read_object(self.path / "exit.json", keys=("cause",))

    def discard_leftovers(self) -> None:
        """Removes half-written checkpoints, which can fill a disk, if their writer is dead."""
        with suppress(UserError):
            if alive(self.info()) is False:
                for path in self.checkpoint_files(".*.tmp"):
                    path.unlink(missing_ok=True)

    def checkpoint_files(self, pattern: str) -> list[Path]:
        """What lies in `checkpoint_dir`; nothing where that is a link: those are a stranger's."""
        if self.checkpoint_dir.is_symlink():
            return []
        names = fnmatch.filter(entries(self.checkpoint_dir), pattern)
        return [self.checkpoint_dir / name for name in names]

    def alive(self, heartbeat: Mapping[str, Any] | None = None) -> bool:
        """Whether the attempt may still write; see liveness for how that is known. Its heartbeat
        is read unless it is given."""
        heartbeat = heartbeat or self.last_heartbeat()
        living = self._watcher.alive(str(self.path), self.info(), heartbeat)
        return living and self.exit() is None


def find_attempts(folder: Path, watcher: Watcher) -> list[Attempt]:
    """The attempts in a folder, oldest first."""
    names = [name for name in entries(folder, folders=True) if _NUMBERED.fullmatch(name)]
    return [Attempt(folder / name, watcher) for name in sorted(names, key=int)]


def claim_attempt(folder: Path, info: Mapping[str, Any], watcher: Watcher) -> Attempt:
    """Makes the next attempt in `folder` and gives it to this process alone.

    The directory is prepared under another name and renamed. That fails where the number is taken,
    since a taken one is never empty; and no attempt is ever seen without its attempt.json.
    """
    make_directory(folder)
    earlier = find_attempts(folder, watcher)
    prepared = folder / f".claim.{secrets.token_hex(8)}.tmp"
    started = datetime.now(UTC).isoformat(timespec="seconds")
    value = {"number": 0, "resumed_from": 0, "started": started, **info, **identity()}
    try:
        prepared.mkdir(mode=0o700)
        (prepared / "checkpoints").mkdir(mode=0o700)
        for number in itertools.count(earlier[-1].number + 1 if earlier else 1):
            path = folder / f"{number:04d}"
            publish_json(prepared / "attempt.json", value | {"number": number})
            if _moved(prepared, path):
                break
    except BaseException:
        shutil.rmtree(prepared, ignore_errors=True)
        raise
    sync_directory(folder)
    for attempt in earlier:
        attempt.discard_leftovers()
    return Attempt(path, watcher)


def _moved(prepared: Path, path: Path) -> bool:
    try:
        prepared.rename(path)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            return False
        raise
    return True
