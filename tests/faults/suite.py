"""All cases, and the undisturbed sweep that each of them is compared with."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults import orchestrator as sweep
from tests.faults import small
from tests.faults.cases import commands, errnos, files, jobs, processes, rounds
from tests.faults.count import Count

RUNS = 4
KILLED_SEEDS, KILLS_PER_SEED = 10, 24
Case = Callable[[], Count]


def counts(seed: int, *, quick: bool, only: str = "", typed: Sequence[str] = ()) -> Iterator[Count]:
    """Run the cases whose name has `only`, one after another, and yield what each counted.

    `typed` is what the case "rounds" sweeps.
    """
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        source = small.prepared(Path(folder) / "source")
        reference = quiet(source, Path(folder) / "quiet")
        for name, case in cases(source, reference, seed, quick=quick, typed=typed):
            if only in name:
                begun = time.monotonic()
                count = case()
                count.seconds = time.monotonic() - begun
                yield count


def quiet(source: Path, outputs: Path) -> dict[str, str | None]:
    """What the small runs give when nobody disturbs them."""
    ids = small.freeze(source, outputs, RUNS)
    sweep.orchestrate(outputs, ids, sweep.ForkBackend())
    return small.reference(outputs)


def cases(
    source: Path,
    reference: dict[str, str | None],
    seed: int,
    *,
    quick: bool,
    typed: Sequence[str],
) -> Iterator[tuple[str, Case]]:
    """The cases by the name that `--only` looks in; `quick` is what the tests run."""
    some = partial(partial, source=source, reference=reference, seed=seed)
    yield "torn", partial(files.torn_metrics, seed=seed)
    yield "flips", partial(files.flipped_checkpoints, source, seed=seed, count=300)
    yield "limit", some(jobs.file_limit, count=1)
    if files.can_mount():
        yield "disk", some(files.full_disk, count=1 if quick else 4, of="bytes")
    for number in range(1 if quick else KILLED_SEEDS):
        killed = partial(processes.kills, source, reference, seed=seed + number)
        yield "kills", partial(killed, count=10 if quick else KILLS_PER_SEED)
    if quick:
        return
    if files.can_mount():
        yield "inodes", some(files.full_disk, count=4, of="files")
    yield "zombies", some(processes.zombies, count=30)
    yield "terminations", some(processes.terminations, count=50)
    for number in (2, 5):
        yield "together", some(processes.together, count=5, orchestrators=number)
    yield "hangs", some(jobs.hangs, count=2)
    yield "memory", some(jobs.out_of_memory, count=2)
    yield "silent", some(jobs.silent_ends)
    yield "readonly", partial(commands.read_only, seed=seed)
    yield "twice", partial(commands.two_at_once, seed=seed, count=2)
    yield "errnos", partial(errnos.injected, seed=seed, count=20)
    yield "stops", partial(commands.stops, seed=seed)
    for name, line in commands.LINES.items():
        killed = partial(commands.kills, seed=seed, count=20, arguments=line, name=name)
        yield f"commands {name}", killed
    yield "rounds", partial(rounds.kills, seed=seed, count=10, typed=typed)
    if not files.can_mount():
        print("disk full: left out, since nothing can be mounted", file=sys.stderr)
