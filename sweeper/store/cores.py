"""The number of CPU cores that this process may use."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def cores() -> int:
    """Return the number of cores that the CPU affinity and the container's CPU quota allow."""
    affinity = getattr(os, "sched_getaffinity", None)  # missing on macOS
    available = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = min(_quotas(), default=available)
    return max(1, min(available, int(quota)))


def _quotas() -> Iterator[float]:
    """Yield the CPU quotas, in cores, of this process's control group and its parents.

    Only control groups of version 2 are read.
    """
    lines = []
    with suppress(OSError):
        lines = _OWN_GROUPS.read_text("utf-8").splitlines()
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers:
            continue  # a group of version 1
        path = PurePosixPath(group)
        for inside in (path, *path.parents):
            with suppress(OSError):
                limit = (_GROUPS / inside.relative_to("/") / "cpu.max").read_text()
                quota, period = limit.split()
                if quota != "max":
                    yield int(quota) / int(period)
