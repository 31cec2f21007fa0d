"""The command a person types, broken at random points and typed again: `sweep.py` itself."""

from __future__ import annotations

import csv
import io
import itertools
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TypeVar

from sweeper.results.collect import collect, write_tables
from sweeper.store.runs import RunStore
from tests.faults.cases import files
from tests.faults.count import Count
from tests.faults.small import compare, reference

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 600.0
MARK = "HEADROOM_FAULTS"
TINY = [
    "data.sentences=600",
    "task.vocabulary_size=400",
    "model.layers=1",
    "optimizer.warmup_steps=5",
    "trainer.log_every=5",
    "trainer.checkpoint_every=5",
    "logger=none",
]
PATIENT = ["hydra.sweeper.tries=1000", "hydra.sweeper.wait_s=0"]
GRID = ["-m", "model.heads=1,2,3,4", "model.head_size=4", "task.sequence_length=32"]
GRID += ["trainer.steps=40", "task.batch_tokens=480", *TINY]
# A pre-training, with steps for both of its phases, and two fine-tunings of it, twice.
TWO_STAGES = ["-m", "experiment=table2a", "seed=0", "model.heads=2,4", "trainer.steps=160", *TINY]
TWO_STAGES += ["experiment.claims=[]", "task.batch_tokens=520"]  # whole rows of all three tasks
# Trials of the arms, ranges that grow, and what is judged with what they choose.
TUNING = ["-m", "experiment=fig1_tuned", "seed=0", "experiment.tune.per=arm"]
TUNING += ["task.sequence_length=32", "trainer.steps=40", "task.batch_tokens=480", *TINY]
LINES = {"a grid": GRID, "two stages": TWO_STAGES, "tuning": TUNING}
KILLS_PER_SWEEP = 5
LOCKED = ("it is read-only", "a folder that you may write to")
CHANGES_WITH_TIME = ("seconds", "tokens_per_second", "reason")
Each = TypeVar("Each")


class Command:
    """A sweep in an outputs folder, typed as often as it takes."""

    def __init__(self, outputs: Path, arguments: Sequence[str]) -> None:
        self.outputs = outputs
        self._line = [sys.executable, "sweep.py", *arguments, *PATIENT]
        self._line += [f"paths.outputs={outputs}"]
        self._mark = secrets.token_hex(8)

    def type(self, more: Mapping[str, str] = MappingProxyType({})) -> subprocess.Popen[bytes]:
        """Start the command; everything it starts carries a mark in its environment."""
        self.outputs.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **more, MARK: self._mark}
        with (self.outputs.parent / "command.log").open("ab") as log:
            return subprocess.Popen(
                self._line,
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def finish(self, patience_s: float = PATIENCE_S) -> int:
        """Type the command and wait; the exit code."""
        return self.type().wait(timeout=patience_s)

    def log(self) -> str:
        """What it has said, each time that it was typed."""
        return (self.outputs.parent / "command.log").read_text()

    def processes(self) -> list[int]:
        """Pids of everything the command has started and that still lives."""
        found = []
        for state in Path("/proc").iterdir():
            with suppress(OSError):
                if state.name.isdigit() and self._mark.encode() in (state / "environ").read_bytes():
                    found.append(int(state.name))
        return found

    def bury(self) -> None:
        """Kill everything, and wait until it is gone."""
        while pids := self.processes():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


def undisturbed(
    outputs: Path, arguments: Sequence[str], patience_s: float = PATIENCE_S
) -> dict[str, bytes]:
    """The tables of a sweep that nobody disturbs."""
    command = Command(outputs, arguments)
    assert command.finish(patience_s) == 0, command.log()
    return tables(outputs)


def tables(outputs: Path) -> dict[str, bytes]:
    """Every table made from the records, without the columns that tell times."""
    write_tables(outputs, collect(outputs))
    found = {}
    for path in sorted((outputs / "tables").iterdir()):
        if path.suffix in (".csv", ".tex", ".txt"):
            found[path.name] = _timeless(path.read_text()).encode()
    return found


def disturbed(
    tally: Count, arguments: Sequence[str], each: Iterable[Each]
) -> Iterator[tuple[Each, Command]]:
    """A command for each to disturb; what it has come to is compared with what nobody disturbed."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        quiet = Path(folder) / "quiet" / "outputs"
        expected = undisturbed(quiet, arguments)
        science = reference(quiet)
        for number, one in enumerate(each):
            outputs = Path(folder) / str(number) / "outputs"
            yield one, started_over(outputs, quiet, arguments)
            compare(tally, outputs, science)
            tally.wrong += tables(outputs) != expected


def kills(*, seed: int, count: int, arguments: Sequence[str], name: str) -> Count:
    """SIGKILL of the sweep, of its server and of its jobs, at random points of both stages."""
    tally, rng = Count(f"sweep.py killed: {name}", seed), random.Random(seed)
    sweeps = takewhile(lambda _: tally.injected < count and not tally.hung, itertools.count())
    for _, command in disturbed(tally, arguments, sweeps):
        process = command.type()
        deadline = time.monotonic() + PATIENCE_S
        most = min(count, tally.injected + KILLS_PER_SWEEP)
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(rng.uniform(0.5, 4.0))
            victims = command.processes()
            if tally.injected < most and victims and (command.outputs / "runs").exists():
                with suppress(ProcessLookupError):
                    os.kill(rng.choice(victims), signal.SIGKILL)
                    tally.injected += 1
            if process.poll() not in (None, 0):
                process = command.type()
        tally.hung += process.poll() is None
        command.bury()
    return tally


def two_at_once(*, seed: int, count: int) -> Count:
    """The same command typed twice at the same moment."""
    tally = Count("sweep.py typed twice at once", seed)
    for _, command in disturbed(tally, GRID, range(count)):
        both = [command.type(), command.type()]
        tally.injected += 1
        for process in both:
            tally.complaints += process.wait(timeout=PATIENCE_S) != 0
    return tally


def stops(*, seed: int) -> Count:
    """SIGINT and SIGTERM to the sweep, once and twice, then the command again."""
    tally = Count("Ctrl-C and SIGTERM to sweep.py", seed)
    ways = itertools.product((signal.SIGINT, signal.SIGTERM), (1, 2))
    for (number, times), command in disturbed(tally, GRID, ways):
        process = command.type()
        _until_a_checkpoint(command.outputs)
        for _ in range(times):
            process.send_signal(number)
            tally.injected += 1
        tally.complaints += process.wait(timeout=PATIENCE_S) != 128 + number
        tally.complaints += bool(_alive(command.outputs))
        tally.complaints += number.name not in command.log() or "Traceback" in command.log()
        tally.complaints += command.finish() != 0
    return tally


def read_only(*, seed: int) -> Count:
    """A store that cannot be written: said in one sentence, and still readable."""
    tally = Count("read-only store", seed)
    with files.disk_to_lock("32m") as (disk, lock):
        outputs = disk / "outputs"
        undisturbed(outputs, GRID)
        science = reference(outputs)
        lock()
        more = [*GRID, "seed=1"]
        line = [sys.executable, "sweep.py", *more, *PATIENT, f"paths.outputs={outputs}"]
        asked = [sys.executable, "-m", "sweeper", "status", "--json", "--outputs", str(outputs)]
        refused = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
        told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
        tally.injected += 2
        said = refused.stderr.strip().splitlines()
        tally.complaints += refused.returncode != 2 or len(said) != 1
        tally.complaints += not any(words in refused.stderr for words in LOCKED)
        tally.complaints += told.returncode != 0 or told.stdout.count('"done"') != len(science)
        compare(tally, outputs, science)
    return tally


def started_over(outputs: Path, quiet: Path, arguments: Sequence[str]) -> Command:
    """The command in a new folder, which has the data of one that nobody disturbed."""
    outputs.mkdir(parents=True)
    shutil.copytree(quiet / "data", outputs / "data")
    return Command(outputs, arguments)


def _until_a_checkpoint(outputs: Path) -> None:
    store = RunStore(outputs)
    deadline = time.monotonic() + PATIENCE_S
    while not any(store.run(name).checkpoints() for name in store.ids()):
        assert time.monotonic() < deadline, "no checkpoint appeared"
        time.sleep(0.02)


def _alive(outputs: Path) -> list[str]:
    store = RunStore(outputs)
    return [name for name in store.ids() if any(a.alive() for a in store.run(name).attempts())]


def _timeless(text: str) -> str:
    rows = list(csv.reader(io.StringIO(text)))
    if not rows or "run" not in rows[0]:
        return text
    keep = [i for i, name in enumerate(rows[0]) if name not in CHANGES_WITH_TIME]
    return "\n".join(",".join(row[i] for i in keep) for row in rows)
