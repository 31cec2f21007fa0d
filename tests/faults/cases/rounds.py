"""A sweep that decides, killed over its rounds and typed again: what it ends in is the same."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.twins import PLANTED
from benchmarks.twins import arguments as twins
from sweeper.store.runs import RunStore
from tests.faults.cases.commands import started_over, tables, undisturbed
from tests.faults.count import Count
from tests.faults.small import compare, reference

PATIENCE_S = 3600.0
PAUSE_S = 2.0


def kills(*, seed: int, count: int, typed: Sequence[str]) -> Count:
    """SIGKILL once so many runs are done, of the sweep alone or of all that it has started.

    `typed` are overrides that choose what is swept; a tiny experiment with a difference if none.
    """
    tally, rng = Count(f"rounds killed: {[*typed, 'twins'][0]}", seed), random.Random(seed)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        quiet, outputs = Path(folder) / "quiet" / "outputs", Path(folder) / "killed" / "outputs"
        decides = ["-m", *typed, "logger=none", "hydra.sweeper.decide=true"]
        arguments = decides if typed else twins(Path(folder) / "conf", [0], rates=PLANTED)
        expected = (undisturbed(quiet, arguments, PATIENCE_S), verdicts(quiet))
        science = reference(quiet)
        command = started_over(outputs, quiet, arguments)
        for kill in range(1, count + 1):
            process = command.type()
            while process.poll() is None and _done(outputs) < kill * len(science) // (count + 1):
                time.sleep(0.02)
            time.sleep(rng.uniform(0, PAUSE_S))
            if process.poll() is None:
                tally.injected += 1
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                if rng.random() < 0.5:
                    command.bury()
            process.wait()
        tally.complaints += command.finish(PATIENCE_S) != 0
        command.bury()
        compare(tally, outputs, science)
        tally.wrong += RunStore(outputs).ids() != RunStore(quiet).ids()
        tally.wrong += (tables(outputs), verdicts(outputs)) != expected
    return tally


def verdicts(outputs: Path) -> list[Any]:
    """Every verdict with its intervals and its price, less what hours it takes."""
    found = []
    for path in sorted((outputs / "tables").glob("*.claims.json")):
        for verdict in json.loads(path.read_text())["verdicts"]:
            numbers = verdict["numbers"]
            numbers.get("price", {}).pop("hours", None)
            found.append([verdict["claim"], verdict["measure"], verdict["verdict"], numbers])
    return found


def _done(outputs: Path) -> int:
    return len(list((outputs / "runs").glob("*/result.json")))
