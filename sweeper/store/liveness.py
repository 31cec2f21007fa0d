"""Whether the process of an attempt lives: by proof on its own machine, elsewhere by its beats."""

from __future__ import annotations

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
from sweeper.store.validate import Shape

HEARTBEAT_SECONDS = 5.0
"""How often a living job writes its heartbeat, at least."""

LEASE_SECONDS = 90.0
"""How long a heartbeat may stand still: four, and the cache time of a network file system."""

_PROC = Path("/proc")


def identity() -> dict[str, Any]:
    """This process, so that no other can be taken for it: not a later one with its number, nor one
    of another boot, machine or container. `pid_started` is in clock ticks since the boot."""
    stat = _stat(os.getpid())
    return {
        "host": socket.gethostname(),
        "machine": _first_line(Path("/etc/machine-id")),
        "boot": _first_line(_PROC / "sys/kernel/random/boot_id"),
        "pid_namespace": _link_target(_PROC / "self/ns/pid"),
        "pid": os.getpid(),
        "pid_started": stat[1] if stat else None,
    }


def alive(info: Mapping[str, Any]) -> bool | None:
    """Whether the process with the identity `info` lives; None where this machine cannot know."""
    here = identity()
    # After another boot, too: machines made of one image share their name and their machine-id, and
    # where the system gives no boot a number nothing tells them apart.
    same = all(info.get(key) == here[key] for key in ("boot", "machine", "pid_namespace"))
    if not (same and here["boot"] and isinstance(info.get("pid"), int)):
        return None
    return _runs(info["pid"], info.get("pid_started"))


def send(info: Mapping[str, Any], number: signal.Signals) -> bool:
    """Signals the process with the identity `info`; False, and nothing is signalled, if it is gone
    or its number belongs to another process by now."""
    if not alive(info):
        return False
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(info["pid"])
        try:
            # Asked again: the number may have changed hands before the handle was taken, not after.
            if alive(info):
                signal.pidfd_send_signal(handle, number)
                return True
        finally:
            os.close(handle)
    return False


@dataclass
class Watcher:
    """Judges attempts; where there is no proof, by whether the heartbeat moved within the lease.

    It compares values it saw itself on its own monotonic clock: neither wall clocks nor the times
    of files are asked, and what it sees for the first time counts as alive.
    """

    lease: float = LEASE_SECONDS
    clock: Callable[[], float] = time.monotonic
    _seen: dict[str, tuple[object, float]] = field(default_factory=dict)

    def alive(
        self, name: str, info: Mapping[str, Any], heartbeat: Mapping[str, Any] | None
    ) -> bool:
        """Whether the attempt `name` with this identity and newest heartbeat counts as alive."""
        proof = alive(info)
        if proof is not None:
            return proof
        value = heartbeat.get("beat") if heartbeat else None
        now = self.clock()
        last, since = self._seen.setdefault(name, (value, now))
        if last != value:
            self._seen[name] = (value, now)
            return True
        return now - since < self.lease


def _runs(pid: int, started: object) -> bool | None:
    if not _PROC.is_dir():
        return None
    try:
        stat = _stat(pid)
    except PermissionError:
        return None
    return stat is not None and stat[0] not in "ZX" and stat[1] == started


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and start time of a process; None if there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return fields[0], int(fields[19])


def _first_line(path: Path) -> str:
    with suppress(OSError):
        return path.read_text().strip()
    return ""


def _link_target(path: Path) -> str:
    with suppress(OSError):
        return str(path.readlink())
    return ""


_CHECK = "crc"  # tells a beat that was read while it was written, and a torn one


class HeartbeatFile:
    """The writer of one such file, which need not be there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._longest = 0
        self._over = False

    def write(self, value: Mapping[str, Any], *, told: bool) -> None:
        """Say `value` in place of what was said before, until the end; ValueError for nan and inf.

        `told`: a file server hears of it at once, not when this machine comes round to it.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        if self._over:
            return
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, flags, 0o600)
            self._longest = os.fstat(self._descriptor).st_size
        text = json.dumps({**value, _CHECK: _check(value)}, allow_nan=False).encode()
        self._longest = max(self._longest, len(text))
        os.pwrite(self._descriptor, text.ljust(self._longest), 0)
        if told:
            os.utime(self._descriptor)  # an NFS client sends what was written before it

    def close(self, *, remove: bool = False) -> None:
        """End; what was said last stays, or goes with the file."""
        self._over = True
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
        if remove:
            self._path.unlink(missing_ok=True)


def read_heartbeat(path: Path, shape: Shape) -> dict[str, Any] | None:
    """What such a file says; None if nothing whole is there."""
    with suppress(UserError):
        value = read_object(path, shape=shape)
        if value is not None and value.pop(_CHECK, None) in (None, _check(value)):
            return value
    return None


def _check(value: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(canonical(value).encode()):08x}"


POLL_S = 0.2


@contextmanager
def held(path: Path, watcher: Watcher | None = None) -> Iterator[None]:
    """Hold the lock of this name, in a folder that is there; waits while a living process has it.

    Whoever holds it and stands still for longer than its lease, on another machine, loses it: what
    is done meanwhile must be harmless when done twice.
    """
    own, watcher = None, watcher or Watcher()
    while own is None:
        own = _taken(path, watcher)
        if own is None:
            time.sleep(POLL_S)
    beats, over = HeartbeatFile(own), threading.Event()
    thread = threading.Thread(target=_beat, args=(beats, over), name="lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        beats.close(remove=True)


def _taken(path: Path, watcher: Watcher) -> Path | None:
    """The next number, if it is this process's now; None if somebody has the lock."""
    number, newest = max(_numbers(path), default=(0, None))
    if newest is not None:
        held_by = read_heartbeat(newest, dict) or {}  # damaged, gone by now, or not to be seen yet
        if watcher.alive(str(newest), held_by, held_by):
            return None
    own = path.with_name(f"{path.name}.lock-{number + 1:04d}")
    return own if publish_json(own, _said(0), replace=False, durable=False) else None


def _numbers(path: Path) -> Iterator[tuple[int, Path]]:
    pattern = re.compile(re.escape(path.name) + r"\.lock-(\d{4,9})")
    for found in path.parent.iterdir():
        if match := pattern.fullmatch(found.name):
            yield int(match[1]), found


def _said(beat: int) -> dict[str, Any]:
    return {**identity(), "beat": beat}


def _beat(beats: HeartbeatFile, over: threading.Event) -> None:
    count = 0
    while not over.wait(HEARTBEAT_SECONDS):
        count += 1
        with suppress(OSError):
            beats.write(_said(count), told=True)


Found = TypeVar("Found")


def wait_until_visible(read: Callable[[], Found | None]) -> Found | None:
    """What `read` finds where another was told that the name is taken; None if it never appears."""
    until = time.monotonic() + LEASE_SECONDS
    while (found := read()) is None and time.monotonic() < until:
        time.sleep(0.1)
    return found
