"""`python -m faults [--quick] [--seed N] [--only WORD]`: a line of JSON a case; 1 on a loss."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any numeric library loads

from faults import orchestrator as sweep
from faults import small
from faults.cases import commands, files, jobs, processes
from faults.count import Count

RUNS = 4
KILLED_SEEDS, KILLS_PER_SEED = 10, 24
Case = Callable[[], Count]


def main(arguments: list[str] | None = None) -> int:
    """Run the cases; 1 if anything was lost."""
    options = _parser().parse_args(arguments)
    warnings.simplefilter("ignore")
    lost = 0
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        source = small.prepared(Path(folder) / "source")
        reference = quiet(source, Path(folder) / "quiet")
        for name, case in cases(source, reference, options.seed, quick=options.quick):
            if options.only not in name:
                continue
            begun = time.monotonic()
            count = case()
            count.seconds = time.monotonic() - begun
            lost += count.lost
            print(json.dumps(count.described()), flush=True)
    return 1 if lost else 0


def quiet(source: Path, outputs: Path) -> dict[str, str | None]:
    """What the small runs give when nobody disturbs them."""
    ids = small.freeze(source, outputs, RUNS)
    sweep.orchestrate(outputs, ids, sweep.ForkBackend())
    return small.reference(outputs)


def cases(
    source: Path, reference: dict[str, str | None], seed: int, *, quick: bool
) -> Iterator[tuple[str, Case]]:
    """The cases by the name that `--only` looks in; `quick` is what the tests run."""
    some = partial(partial, source=source, reference=reference, seed=seed)
    yield "torn", partial(files.torn_metrics, seed=seed)
    yield "flips", partial(files.flipped_checkpoints, source, seed=seed, count=300)
    yield "limit", some(jobs.file_limit, count=1)
    if files.can_mount():
        yield "disk", some(files.full_disk, count=1 if quick else 4)
    for number in range(1 if quick else KILLED_SEEDS):
        killed = partial(processes.kills, source, reference, seed=seed + number)
        yield "kills", partial(killed, count=10 if quick else KILLS_PER_SEED)
    if quick:
        return
    yield "zombies", some(processes.zombies, count=30)
    yield "terminations", some(processes.terminations, count=50)
    for number in (2, 5):
        yield "together", some(processes.together, count=5, orchestrators=number)
    yield "hangs", some(jobs.hangs, count=2)
    yield "memory", some(jobs.out_of_memory, count=2)
    yield "silent", some(jobs.silent_ends)
    yield "readonly", partial(commands.read_only, seed=seed)
    yield "twice", partial(commands.two_at_once, seed=seed, count=2)
    yield "stops", partial(commands.stops, seed=seed)
    for name, line in (("a grid", commands.GRID), ("two stages", commands.TWO_STAGES)):
        killed = partial(commands.kills, seed=seed, count=20, arguments=line, name=name)
        yield f"commands {name}", killed
    if not files.can_mount():
        print("disk full: left out, since nothing can be mounted", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of everything random")
    parser.add_argument("--quick", action="store_true", help="a minute, not half an hour")
    parser.add_argument("--only", default="", metavar="WORD", help="cases whose name has it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
