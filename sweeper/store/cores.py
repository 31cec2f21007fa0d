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
    """Yield the CPU quotas, in cores, of this process's control groups and their parents."""
    lines = []
    with suppress(OSError):
        lines = _OWN_GROUPS.read_text("utf-8").splitlines()
    for line in lines:
        _, controllers, group = line.split(":", 2)
        path = PurePosixPath(group)
        for inside in (path, *path.parents):
            if not controllers:  # cgroup version 2
                limits = _words(_GROUPS / inside.relative_to("/") / "cpu.max")
            elif "cpu" in controllers.split(","):
                folder = _GROUPS / "cpu" / inside.relative_to("/")
                limits = _words(folder / "cpu.cfs_quota_us") + _words(
                    folder / "cpu.cfs_period_us"
                )
            else:
                continue
            # A limit of "max" or "-1" means that there is no quota.
            if len(limits) == 2 and limits[0].isdecimal():
                yield int(limits[0]) / int(limits[1])


def _words(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").split()
    except OSError:
        return []
