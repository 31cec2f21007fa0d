"""All cases of the fault suite, in the order in which they run."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from tests.faults import commands, files, jobs, processes
from tests.faults.sweep import Count, Setting

KILLED_SEEDS, KILLS_PER_SEED = 10, 24


def cases(
    setting: Setting, *, quick: bool
) -> Iterator[tuple[str, Callable[[], Count]]]:
    """Yield the cases with the names for `--only`; the tests run the quick ones."""
    mounts, seed = files.can_mount(), setting.seed
    fills, seeds, faults = (1, 1, 10) if quick else (4, KILLED_SEEDS, KILLS_PER_SEED)
    yield "flips", partial(files.flipped_checkpoints, setting)
    yield "limit", partial(jobs.file_limit, setting)
    if mounts:
        yield "disk", partial(files.full_disk, setting, times=fills, of="bytes")
    for number in range(seeds):
        other = replace(setting, seed=seed + number)
        yield "kills", partial(processes.kills, other, faults=faults)
    if quick:
        return
    if mounts:
        yield "inodes", partial(files.full_disk, setting, times=fills, of="files")
    yield "zombies", partial(processes.zombies, setting)
    for orchestrators in (2, 5):
        yield "together", partial(processes.together, setting, orchestrators)
    yield "hangs", partial(jobs.hangs, setting)
    yield "silent", partial(jobs.silent_ends, setting)
    yield "errnos", partial(commands.failing_calls, seed)
    yield "stops", partial(commands.stops, seed)
    for name, line in commands.LINES.items():
        yield f"commands {name}", partial(commands.kills, seed, line, name)
    yield "rounds", partial(commands.killed_rounds, seed)
    if not mounts:
        print("disk full: left out, as this user may not mount", file=sys.stderr)
