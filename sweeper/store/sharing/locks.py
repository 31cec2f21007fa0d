"""One process at a time, on whatever machine: with hard links alone, as attempts are with renames.

    <name>.lock-0001    who waits for nobody: made by a link, which a file server grants once

A number is taken only if the one before it is of a process that died; who ends removes its own.
No number of a dead one is ever free again, so who looked a moment too late finds its own taken.
Neither flock nor fcntl is asked: mounts with `local_lock=all` grant those to every machine.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sweeper.store.files import publish_json
from sweeper.store.liveness import HEARTBEAT_SECONDS, Watcher, identity
from sweeper.store.sharing.beats import Beats, read_beat

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
    beats, over = Beats(own), threading.Event()
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
        held_by = read_beat(newest, dict) or {}  # damaged, gone by now, or not to be seen yet
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


def _beat(beats: Beats, over: threading.Event) -> None:
    count = 0
    while not over.wait(HEARTBEAT_SECONDS):
        count += 1
        with suppress(OSError):
            beats.write(_said(count), told=True)
