"""All cases of the fault suite, in the order in which they run."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial

from tests.faults import commands, files, fuzz, jobs, processes
from tests.faults.sweep import Count, Setting

KILLED_SEEDS, KILLS_PER_SEED = 10, 24
FUZZES = 4


def cases(
    setting: Setting, *, quick: bool, typed: Sequence[str]
) -> Iterator[tuple[str, Callable[[], Count]]]:
    """Yield the cases with the names for `--only`; the tests run the quick ones.

    `typed` are the overrides of the sweep in the case "rounds".
    """
    mounts, seed = files.can_mount(), setting.seed
    yield "flips", partial(files.flipped_checkpoints, setting, flips=300)
    yield "limit", partial(jobs.file_limit, setting)
    if mounts:
        yield (
            "disk",
            partial(files.full_disk, setting, times=1 if quick else 4, of="bytes"),
        )
    for number in range(1 if quick else KILLED_SEEDS):
        other = replace(setting, seed=seed + number)
        yield (
            "kills",
            partial(processes.kills, other, faults=10 if quick else KILLS_PER_SEED),
        )
    with ExitStack() as stack:  # one sweep for all of them, trained for the first
        victim = cache(lambda: stack.enter_context(fuzz.victim()))
        for at in range(seed, seed + (1 if quick else FUZZES)):
            damaged = 5 if quick else 250
            yield (
                "fuzz outputs",
                partial(fuzz.damaged_outputs, victim, at, files=damaged),
            )
    if quick:
        return
    if mounts:
        yield "inodes", partial(files.full_disk, setting, times=4, of="files")
    yield "zombies", partial(processes.zombies, setting, faults=30)
    yield "terminations", partial(processes.terminations, setting, faults=50)
    for orchestrators in (2, 5):
        yield "together", partial(processes.together, setting, orchestrators, times=5)
    yield "hangs", partial(jobs.hangs, setting, times=2)
    yield "memory", partial(jobs.out_of_memory, setting, times=2)
    yield "silent", partial(jobs.silent_ends, setting)
    yield "twice", partial(commands.two_at_once, seed, times=2)
    yield "errnos", partial(commands.failing_calls, seed, times=20)
    yield "stops", partial(commands.stops, seed)
    for name, line in commands.LINES.items():
        yield f"commands {name}", partial(commands.kills, seed, line, name, faults=20)
    yield "rounds", partial(commands.killed_rounds, seed, typed, times=10)
    if not mounts:
        print(
            "disk full: left out, as this user may not mount",
            file=sys.stderr,
        )
