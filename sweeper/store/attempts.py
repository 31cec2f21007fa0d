"""Attempts at training a run. Each attempt has a folder, and only one process writes to it."""

import errno
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

from typing_extensions import TypedDict

from sweeper.store import files
from sweeper.store.errors import UserError
from sweeper.store.liveness import (
    HeartbeatFile,
    Watcher,
    alive,
    identity,
    read_heartbeat,
)
from sweeper.store.metrics import MetricsWriter, spell_float

START_LOG = "start.log"  # in the run's folder: a job's output before its attempt begins
VISIBLE = "CUDA_VISIBLE_DEVICES"
# The values of CUDA_VISIBLE_DEVICES that hide all GPUs. Slurm sets NoDevFiles.
NO_GPUS = ("", "-1", "NoDevFiles")


class Info(TypedDict, total=False):
    """The keys of attempt.json that callers of `claim_attempt` may provide.

    `continues` is the number of the attempt from whose checkpoint this attempt resumed, or 0.
    """

    continues: int
    folder: str
    code: str | None
    code_parts: dict[str, str]
    versions: dict[str, str]
    hardware: dict[str, Any]
    visible_gpus: str | None
    parent_weights: str | None


class Heartbeat(TypedDict, total=False):
    """The keys of beat.json whose types are checked. beat.json may have more keys.

    `most_parts` is the largest number of micro-batches into which a batch can be split.
    """

    step: int
    steps: int
    most_parts: int
    tokens_per_second: float | str


class Cause(StrEnum):
    """The reason why an attempt ended."""

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
    # No exit.json was written, or one of several processes that trained the run was killed.
    KILLED = "killed"
    # Readers use this if exit.json says `done`, but there is no result.json.
    NO_RESULT = "no_result"


class Attempt:
    """The folder of an attempt. Only the process that claimed the attempt writes to the folder."""

    def __init__(self, path: Path, watcher: Watcher) -> None:
        self.path = path
        self.number = int(path.name)
        self.log_path = path / "log.txt"
        self.metrics_path = path / "metrics.jsonl"
        self.checkpoint_dir = path / "checkpoints"  # `claim_attempt` creates it
        self._heartbeat_file = HeartbeatFile(path / "beat.json")
        self._watcher = watcher
        self._fields: dict[str, Any] = {}
        self._heartbeats = 0
        self._work = 0
        self._lock = threading.Lock()

    def info(self) -> dict[str, Any]:
        """Return the content of attempt.json, or {} if there is no such file.

        Raise UserError if the file is damaged.
        """
        path = self.path / "attempt.json"
        found = files.read_object(path, schema=Info)
        return files.verified(path, found) if found else {}

    def heartbeat(self, **fields: Any) -> None:
        """Write a heartbeat, which shows that the job is alive. `fields` describe its progress.

        Omitted fields keep their last values. A heartbeat without fields is flushed to the file
        server at once. This method is thread-safe. If the file cannot be written, for example
        because the disk is full, the job continues without this heartbeat.
        """
        with suppress(OSError), self._lock:
            self._heartbeats += 1
            self._fields |= {name: spell_float(value) for name, value in fields.items()}
            value = {"beat": self._heartbeats, "work": self._work, **self._fields}
            self._heartbeat_file.write(value, flush=not fields)

    def advance(self) -> None:
        """Count one more trained or evaluated batch, so that the watchdog sees progress."""
        self._work += 1

    def last_heartbeat(self) -> dict[str, Any] | None:
        """Return the newest heartbeat, or None if it is absent or cannot be read."""
        return read_heartbeat(self.path / "beat.json", Heartbeat)

    def metrics(self) -> MetricsWriter:
        """Return the writer of this attempt's metrics.jsonl."""
        return MetricsWriter(self.metrics_path)

    def log_end(self, most: int) -> str:
        """Return the last lines of log.txt, at most `most` bytes. Return "" if there is no log."""
        data = files.read_bytes(self.log_path, most + 1) or b""
        if len(data) > most:
            # The first line may be incomplete, so drop it, unless it is the only line.
            data = data.partition(b"\n")[2] or data[1:]
        return data.decode("utf-8", "replace")

    def finish(self, cause: str, message: str = "", *, overrule: bool = False) -> bool:
        """Write exit.json, which says why the attempt ended. Return False if the file exists.

        With `overrule`, replace the file and return True. A sweep does so after it has killed a
        hanging attempt.
        """
        value = {"cause": Cause(cause).value, "message": message}
        return files.publish_json(self.path / "exit.json", value, replace=overrule)

    def clear(self) -> None:
        """Remove the heartbeat. Call this after the result is written."""
        with self._lock:
            self._heartbeat_file.remove()

    def exit(self) -> dict[str, Any] | None:
        """Return exit.json, which has the keys cause and message.

        Return None if there is no such file. An attempt that finishes its run writes none.
        """
        return files.read_object(self.path / "exit.json", keys=("cause",))

    def discard_leftovers(self) -> None:
        """If the attempt's process is dead, free disk space: remove its incomplete checkpoints."""
        with suppress(UserError):
            if alive(self.info()) is False:
                for path in self.checkpoint_files():
                    if path.suffix == ".tmp":
                        path.unlink(missing_ok=True)

    def checkpoint_files(self) -> list[Path]:
        """Return all files in `checkpoint_dir`. If it is a symbolic link, return []."""
        if self.checkpoint_dir.is_symlink():
            return []
        names = files.entries(self.checkpoint_dir)
        return [self.checkpoint_dir / name for name in names]

    def alive(self, heartbeat: Mapping[str, Any] | None = None) -> bool:
        """Return whether the attempt's process may still write to this folder (see liveness.py).

        If `heartbeat` is None, read the newest one.
        """
        info, heartbeat = self.info(), heartbeat or self.last_heartbeat()
        living = self._watcher.alive(str(self.path), info, heartbeat)
        return living and not self._copied(info) and self.exit() is None

    def _copied(self, info: Mapping[str, Any]) -> bool:
        """Return whether this folder is a copy. The attempt's process writes to the original."""
        # attempt.json names the folder in which the process writes. If that folder does not exist,
        # it was moved here, so this folder is no copy.
        with suppress(OSError):
            return bool(alive(info)) and not self.path.samefile(info["folder"])
        return False


def claim_attempt(
    folder: Path, earlier: Sequence[Attempt], info: Mapping[str, Any], watcher: Watcher
) -> Attempt:
    """Create a new attempt in `folder` and return it. Only this process may write to the attempt.

    The attempt gets the next number after the `earlier` attempts. Its directory is prepared under a
    temporary name and then renamed, so that every visible attempt has an attempt.json. If another
    process has taken the number, renaming fails, because that process's directory is not empty.
    Then the next number is tried.
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
            content = value | {"number": number, "folder": str(path.resolve())}
            files.publish_with_checksum(
                prepared / "attempt.json", content, replace=True
            )
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
