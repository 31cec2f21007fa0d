"""Whether the process of an attempt lives: by proof on its own machine, elsewhere by its beats."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
