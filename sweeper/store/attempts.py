"""Attempts at a run: directories that only the process which claimed one writes below."""

import errno
import fnmatch
import itertools
import secrets
import shutil
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from sweeper.store import files
from sweeper.store.errors import UserError
from sweeper.store.liveness import HeartbeatFile, Watcher, alive, identity, read_heartbeat
from sweeper.store.metrics import MetricsWriter, spell_float

START_LOG = "start.log"  # beside the record
VISIBLE = "CUDA_VISIBLE_DEVICES"
NO_GPUS = ("", "-1", "NoDevFiles")  # its values that name no GPU; the last is Slurm's
_WARNING = "warning.json"  # beside log.txt

_INFO = {
    "continues": int,
    "folder": str,
    "code": str | None,
    "code_parts": {str: str},
    "versions": {str: str},
    "hardware": dict,
    "visible_gpus": str | None,
}
_BEAT = {"step": int, "steps": int, "most_parts": int, "tokens_per_second": files.NUMBER | str}


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
    KILLED = "killed"  # the process left no exit.json, or one of its ranks was killed
    # Derived, never written: an exit.json without a result.
    NO_RESULT = "no_result"


class Attempt:
    """One attempt, to write (by the process that claimed it) or to read (by anyone)."""

    def __init__(self, path: Path, watcher: Watcher) -> None:
        self.path = path
        self.number = int(path.name)
        self.log_path = path / "log.txt"
        self.metrics_path = path / "metrics.jsonl"
        self.checkpoint_dir = path / "checkpoints"  # the claim makes it
        self._heartbeat_file = HeartbeatFile(path / "beat.json")
        self._watcher = watcher
        self._fields: dict[str, Any] = {}
        self._heartbeats = 0
        self._work = 0
        self._lock = threading.Lock()

    def info(self) -> dict[str, Any]:
        """Return attempt.json: number, folder, process, resumed_from, fields given to the claim."""
        path = self.path / "attempt.json"
        found = files.read_object(path, shape=_INFO) or {}
        return files.verified(path, found) if found else found

    def heartbeat(self, **fields: Any) -> None:
        """Write that the job lives and how far it is; fields not given keep their last value.

        Without fields it is the regular heartbeat, which is sent to the file server at once. Safe
        to call from several threads. A heartbeat that cannot be written (a full disk) does not end
        the job.
        """
        with suppress(OSError), self._lock:
            self._heartbeats += 1
            self._fields |= {name: spell_float(value) for name, value in fields.items()}
            value = {"beat": self._heartbeats, "work": self._work, **self._fields}
            self._heartbeat_file.write(value, flush=not fields)

    def advance(self) -> None:
        """Count a batch trained or evaluated; a heartbeat alone is no progress."""
        self._work += 1

    def last_heartbeat(self) -> dict[str, Any] | None:
        """Return the newest heartbeat; None if none can be read."""
        return read_heartbeat(self.path / "beat.json", _BEAT)

    def metrics(self) -> MetricsWriter:
        """Return the writer of this attempt's metrics.jsonl."""
        return MetricsWriter(self.metrics_path)

    def log_end(self, most: int) -> str:
        """Return the last lines of log.txt, at most `most` bytes; empty if there is none."""
        data = files.read_bytes(self.log_path, most + 1) or b""
        if len(data) > most:
            data = data.partition(b"\n")[2] or data[1:]  # without the first, cut line
        return data.decode("utf-8", "replace")

    def finish(
        self, cause: str, message: str = "", traceback: str = "", *, overrule: bool = False
    ) -> bool:
        """Write why the attempt ended; return False, and change nothing, if that stands already.

        `overrule`: write in any case, for the sweep that had to kill the attempt.
        """
        value = {"cause": Cause(cause).value, "message": message, "traceback": traceback}
        return files.publish_json(self.path / "exit.json", value, replace=overrule)

    def warn(self, words: str) -> None:
        """Keep a warning that a sweep repeats when it ends; a full disk loses it."""
        with suppress(OSError):
            files.publish_json(self.path / _WARNING, {"words": words}, replace=True)

    def warning(self) -> str:
        """Return the warning of the attempt; empty if there is none that can be read."""
        with suppress(UserError):
            found = files.read_object(self.path / _WARNING, keys=("words",), shape={"words": str})
            return str(found["words"]) if found else ""
        return ""

    def clear(self) -> None:
        """Remove the heartbeat, once a result is published."""
        with self._lock:
            self._heartbeat_file.remove()

    def exit(self) -> dict[str, Any] | None:
        """Return why the attempt ended: cause, message, traceback; None if nothing says.

        The attempt that finished its run has a result.json instead.
        """
        return files.read_object(self.path / "exit.json", keys=("cause",))

    def discard_leftovers(self) -> None:
        """Remove half-written checkpoints, which can fill a disk, if their writer is dead."""
        with suppress(UserError):
            if alive(self.info()) is False:
                for path in self.checkpoint_files(".*.tmp"):
                    path.unlink(missing_ok=True)

    def checkpoint_files(self, pattern: str) -> list[Path]:
        """Return the files in `checkpoint_dir`; none if that is a link, which we never make."""
        if self.checkpoint_dir.is_symlink():
            return []
        names = fnmatch.filter(files.entries(self.checkpoint_dir), pattern)
        return [self.checkpoint_dir / name for name in names]

    def alive(self, heartbeat: Mapping[str, Any] | None = None) -> bool:
        """Return whether the attempt may still write (see liveness).

        Its heartbeat is read unless it is given.
        """
        info, heartbeat = self.info(), heartbeat or self.last_heartbeat()
        living = self._watcher.alive(str(self.path), info, heartbeat)
        return living and not self._copied(info) and self.exit() is None

    def _copied(self, info: Mapping[str, Any]) -> bool:
        """Return whether this is a copy of the folder that a process of this machine writes to."""
        with suppress(OSError):  # the folder was moved here, or removed
            return bool(alive(info)) and not self.path.samefile(info.get("folder", self.path))
        return False


def claim_attempt(
    folder: Path, earlier: Sequence[Attempt], info: Mapping[str, Any], watcher: Watcher
) -> Attempt:
    """Make the next attempt in `folder`, after the `earlier` ones, for this process alone.

    The directory is prepared under another name and renamed. Renaming fails if the number is taken,
    since a taken directory is never empty; and every visible attempt has its attempt.json.
    """
    files.make_directory(folder)
    prepared = folder / f".claim.{secrets.token_hex(8)}.tmp"
    started = datetime.now(UTC).isoformat(timespec="seconds")
    value = {"number": 0, "resumed_from": 0, "started": started, **info, **identity()}
    try:
        prepared.mkdir(mode=0o700)
        (prepared / "checkpoints").mkdir(mode=0o700)
        for number in itertools.count(earlier[-1].number + 1 if earlier else 1):
            path = folder / f"{number:04d}"
            whole = files.with_checksum(value | {"number": number, "folder": str(path.resolve())})
            files.publish_json(prepared / "attempt.json", whole)
            try:
                prepared.rename(path)
                break
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                    raise
    except BaseException:
        shutil.rmtree(prepared, ignore_errors=True)
        raise
    files.sync_directory(folder)
    for attempt in earlier:
        attempt.discard_leftovers()
    return Attempt(path, watcher)
