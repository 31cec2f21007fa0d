"""Liveness of processes on machines that share a folder, and locks between them.

/proc tells whether a process on this machine is alive. A process on another machine counts as alive
while its heartbeat changes. Locks are hard links, because on NFS mounts with `local_lock=all`
several machines could hold the same flock or fcntl lock at once.
"""

import itertools
import json
import os
import re
import signal
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sweeper.store.errors import UserError
from sweeper.store.files import canonical, publish_json, read_object

HEARTBEAT_SECONDS = 5.0
"""A living job writes a heartbeat at least this often."""

LEASE_SECONDS = 90.0
"""A process on another machine counts as dead if its heartbeat is unchanged for longer than this.

NFS may show an old heartbeat for up to a minute.
"""

_PROC = Path("/proc")


def identity() -> dict[str, Any]:
    """Return a dict that identifies this process across machines and reboots.

    The key `pid_started` is the time when the process started, in clock ticks since the boot.
    """
    stat = _stat(os.getpid())
    pid_namespace = ""
    with suppress(OSError):
        pid_namespace = str((_PROC / "self/ns/pid").readlink())
    return {
        "host": socket.gethostname(),
        "machine": _first_line(Path("/etc/machine-id")),
        "boot": _first_line(_PROC / "sys/kernel/random/boot_id"),
        "pid_namespace": pid_namespace,
        "pid": os.getpid(),
        "pid_started": stat[1] if stat else None,
    }


def alive(info: Mapping[str, Any]) -> bool | None:
    """Return whether the process with the identity `info` is alive.

    Return None if this is unknown, because the process belongs to another machine or container.
    """
    here = identity()
    # Machines that were cloned from one image have the same machine id, but different boot ids.
    same = all(
        info.get(key) == here[key] for key in ("boot", "machine", "pid_namespace")
    )
    # Without /proc, the boot id is empty, so processes cannot be identified.
    if not (same and here["boot"] and isinstance(info.get("pid"), int)):
        return None
    try:
        stat = _stat(info["pid"])
    except PermissionError:
        return None
    return (
        stat is not None and stat[0] not in "ZX" and stat[1] == info.get("pid_started")
    )


def send(info: Mapping[str, Any], number: signal.Signals) -> bool:
    """Send a signal to the process with the identity `info`. Return False if it is gone.

    A new process that has got the same pid receives no signal.
    """
    if not alive(info):
        return False
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(info["pid"])
        try:
            # Check again: if the process ended before pidfd_open, the handle may belong to a new
            # process with the same pid.
            if alive(info):
                signal.pidfd_send_signal(handle, number)
                return True
        finally:
            os.close(handle)
    return False


@dataclass
class Watcher:
    """A watcher that decides which attempts are alive.

    An attempt on another machine counts as alive while its heartbeat changes. It counts as dead
    when the heartbeat was unchanged for `lease` seconds. The watcher measures this time with its
    own monotonic clock, because wall clocks and file times differ between machines. When the
    watcher first sees an attempt, the attempt counts as alive.

    A watcher also decides whether the holder of a lock is alive, in the same way. If another
    process takes the lock, the time begins again.
    """

    lease: float = LEASE_SECONDS
    clock: Callable[[], float] = time.monotonic
    _seen: dict[str, tuple[object, float]] = field(default_factory=dict)

    def alive(
        self, name: str, info: Mapping[str, Any], heartbeat: Mapping[str, Any] | None
    ) -> bool:
        """Return whether an attempt counts as alive.

        Args:
            name: a unique name of the attempt.
            info: the identity of the attempt's process.
            heartbeat: the newest heartbeat of the attempt, or None.
        """
        proof = alive(info)
        if proof is not None:
            return proof
        signs, now = (info, heartbeat), self.clock()
        last, since = self._seen.get(name, (None, now))
        if last != signs:
            self._seen[name] = (signs, now)
            return True
        return now - since < self.lease


def _stat(pid: int) -> tuple[str, int] | None:
    """Return the state letter and the start time of a process. Return None if it does not exist."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field, the program's name in parentheses, may contain spaces. Skip it.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])


def _first_line(path: Path) -> str:
    with suppress(OSError):
        return path.read_text("utf-8").strip()
    return ""


_CRC = "crc"  # the value of this key is a checksum, which reveals a partial write


class HeartbeatFile:
    """The writer of one heartbeat file. It keeps the file open and overwrites the content.

    Creating a new file for each heartbeat would take five requests to the file server. With 500
    jobs and a heartbeat every 5 seconds, these would be 500 requests per second.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._longest = 0
        self._closed = False

    def write(self, value: Mapping[str, Any], *, flush: bool) -> None:
        """Replace the content by `value`. After `remove`, do nothing.

        If `flush` is True, send the content to the file server at once. Raise ValueError for nan
        and inf.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        if self._closed:
            return
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, flags, 0o600)
            self._longest = os.fstat(self._descriptor).st_size
        text = json.dumps({**value, _CRC: _crc(value)}, allow_nan=False).encode()
        self._longest = max(self._longest, len(text))
        os.pwrite(self._descriptor, text.ljust(self._longest), 0)
        if flush:
            # Changing the file's times makes an NFS client send all written data first.
            os.utime(self._descriptor)

    def remove(self) -> None:
        """Stop writing and remove the file."""
        self._closed = True
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._path.unlink(missing_ok=True)


def read_heartbeat(path: Path, schema: Any = dict) -> dict[str, Any] | None:
    """Return the heartbeat in a file. Return None if the file is absent, damaged or incomplete."""
    with suppress(UserError):
        value = read_object(path, schema=schema)
        if value is not None and value.pop(_CRC, None) in (None, _crc(value)):
            return value
    return None


def _crc(value: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(canonical(value).encode()):08x}"


POLL_S = 0.2


@contextmanager
def held(path: Path, watcher: Watcher | None = None) -> Iterator[None]:
    """Hold the lock `path` inside the block. Wait while another living process holds it.

    The folder of `path` must exist. The lock is a file <name>.lock-0001, created as a hard link so
    that only one process can create it. Each holder removes only its own file. If a holder died,
    the next process creates the file with the next number.

    A holder on another machine loses the lock if its heartbeat stops for longer than LEASE_SECONDS.
    Then two processes may execute the block at once, so this must be harmless.
    """
    watcher = watcher or Watcher()
    while (own := _acquire(path, watcher)) is None:
        time.sleep(POLL_S)
    heartbeat, released = HeartbeatFile(own), threading.Event()

    def keep_alive() -> None:
        for count in itertools.count(1):
            if released.wait(HEARTBEAT_SECONDS):
                return
            with suppress(OSError):
                heartbeat.write({**identity(), "beat": count}, flush=True)

    thread = threading.Thread(target=keep_alive, name="lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        released.set()
        thread.join()
        heartbeat.remove()


def _acquire(path: Path, watcher: Watcher) -> Path | None:
    """Take the lock and return its file. Return None if another process holds it."""
    pattern = re.compile(re.escape(path.name) + r"\.lock-(\d{4,9})")
    files = ((pattern.fullmatch(found.name), found) for found in path.parent.iterdir())
    taken = [(int(match[1]), found) for match, found in files if match]
    number, newest = max(taken, default=(0, None))
    if newest is not None:
        # If the file is damaged, removed, or not visible yet, the holder is unknown. It counts as
        # alive until this has lasted for `watcher.lease` seconds.
        holder = read_heartbeat(newest) or {}
        if watcher.alive(str(newest), holder, holder):
            return None
        # If the holder released the lock before it ended, its file is gone, and other processes
        # count from 1 again. Then a file with the next number would be a second lock, so do not
        # create it.
        if not newest.exists() or (read_heartbeat(newest) or {}) != holder:
            return None
    own = path.with_name(f"{path.name}.lock-{number + 1:04d}")
    first = {**identity(), "beat": 0}
    return own if publish_json(own, first, replace=False, durable=False) else None


Found = TypeVar("Found")


def wait_until_visible(read: Callable[[], Found | None]) -> Found | None:
    """Call `read` until it returns a value other than None, and return this value.

    Return None after LEASE_SECONDS. A network file system may show a new file late.
    """
    until = time.monotonic() + LEASE_SECONDS
    while (found := read()) is None and time.monotonic() < until:
        time.sleep(0.1)
    return found
