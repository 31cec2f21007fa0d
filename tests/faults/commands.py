"""Cases that disturb the command a person types, `sweep.py`, and type it again."""

import csv
import io
import itertools
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import ROOT
from sweeper.results.collect import collect, write_tables
from sweeper.store.metrics import read_metrics
from sweeper.store.runs import RunStore
from tests.faults.sweep import Count, compare, kill, living, reference_of
from tests.twins import PLANTED
from tests.twins import arguments as twins
from tests.waiting import wait_until

FAULTY = Path(__file__).with_name("faulty")
PATIENCE_S = 600.0
MARK = "HEADROOM_FAULTS"
TINY = """
data.sentences=600 task.vocabulary_size=400 model.layers=1 optimizer.warmup_steps=5
trainer.log_every=5 trainer.checkpoint_every=5 logger=none
"""
GRID = f"""
-m model.heads=1,2,3,4 model.head_size=4 task.sequence_length=32 trainer.steps=40
task.batch_tokens=480
{TINY}
""".split()
# A pre-training, with steps for both of its phases, and two fine-tunings of it, twice.
# Rows of all three tasks have 21 tokens.
TWO_STAGES = f"""
-m experiment=table2a seed=0 model.heads=2,4 trainer.steps=160 experiment.claims=[]
task.batch_tokens=525
{TINY}
""".split()
# Trials of the arms, ranges that grow, and runs with the values that they choose.
TUNING = f"""
-m experiment=fig1_tuned seed=0 task.sequence_length=32 trainer.steps=40 task.batch_tokens=480
{TINY}
""".split()
LINES = {"a grid": GRID, "two stages": TWO_STAGES, "tuning": TUNING}
KILLS, KILLS_PER_SWEEP = 20, 5
FAILING_CALLS = 0.004  # the share of calls on paths in the outputs folder
CHANGES_WITH_TIME = ("seconds", "waited_seconds", "tokens_per_second", "reason")


class Command:
    """A sweep in an outputs folder, which is typed as often as it takes."""

    def __init__(self, outputs: Path, arguments: Sequence[str]) -> None:
        self.outputs = outputs
        patient = ("hydra.sweeper.tries=1000", "hydra.sweeper.wait_s=0")
        self.line = [
            sys.executable,
            "sweep.py",
            *arguments,
            *patient,
            f"paths.outputs={outputs}",
        ]
        self._log = outputs.parent / "command.log"
        self.mark = secrets.token_hex(8)

    def type(self, **more: str) -> subprocess.Popen[bytes]:
        """Start the command; all its processes have `more` and a mark in their environment."""
        self.outputs.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **more, MARK: self.mark}
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self.line,
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def finish(self) -> int:
        """Type the command and wait for it; return the exit code."""
        return self.type().wait(timeout=PATIENCE_S)

    def log(self) -> str:
        """Return the output of all times that it was typed."""
        return self._log.read_text()


def marked(mark: str) -> list[int]:
    """Return the pids of all living processes that have the mark in their environment."""
    found = []
    for state in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (state / "environ").read_bytes():
                found.append(int(state.name))
    return found


def kill_marked(mark: str) -> None:
    """Kill all processes that have the mark, and wait until they are gone."""
    while pids := marked(mark):
        for pid in pids:
            kill(pid)
        time.sleep(0.05)


def disturbed(
    count: Count, arguments: Sequence[str], each: Iterable[Any]
) -> Iterator[tuple[Any, Command]]:
    """Yield a command for each disturbance; then compare its sweep with an undisturbed one.

    The sweeps have the data of the undisturbed one.
    """
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        quiet = Path(folder) / "quiet" / "outputs"
        command = Command(quiet, arguments)
        assert command.finish() == 0, command.log()
        expected, reference = (tables(quiet), verdicts(quiet)), reference_of(quiet)
        for number, one in enumerate(each):
            outputs = Path(folder) / str(number) / "outputs"
            shutil.copytree(quiet / "data", outputs / "data")
            yield one, Command(outputs, arguments)
            compare(count, outputs, reference)
            count.wrong += RunStore(outputs).ids() != [*reference]
            count.wrong += (tables(outputs), verdicts(outputs)) != expected


def kills(seed: int, arguments: Sequence[str], name: str) -> Count:
    """Kill the sweep, its server or its jobs with SIGKILL while a job trains."""
    count, rng = Count(f"sweep.py killed: {name}", seed), random.Random(seed)
    sweeps = itertools.takewhile(
        lambda _: count.injected < KILLS and not count.hung, itertools.count()
    )
    for _, command in disturbed(count, arguments, sweeps):
        process = command.type()
        deadline = time.monotonic() + PATIENCE_S
        most = min(KILLS, count.injected + KILLS_PER_SWEEP)
        while process.poll() is None and time.monotonic() < deadline:
            await_training(process, command.outputs, rng)
            victims = marked(command.mark)
            if count.injected < most and victims and process.poll() is None:
                count.injected += kill(rng.choice(victims))
            if process.poll() not in (None, 0):
                process = command.type()
        count.hung += process.poll() is None
        kill_marked(command.mark)
    return count


def await_training(
    process: subprocess.Popen[bytes], outputs: Path, rng: random.Random
) -> None:
    """Wait for a random moment at which a job of the sweep trains, or for the sweep's end."""
    chosen = time.monotonic() + rng.uniform(0, 2)
    while process.poll() is None and not (
        time.monotonic() > chosen and training(outputs)
    ):
        time.sleep(0.02)


def training(outputs: Path) -> bool:
    """Return whether a job that lives has written a row of metrics."""
    return any(read_metrics(one.metrics_path) for one in living(outputs).values())


def stops(seed: int) -> Count:
    """Send SIGINT or SIGTERM to the sweep, once or twice, then type the command again."""
    count = Count("Ctrl-C and SIGTERM to sweep.py", seed)
    ways = itertools.product((signal.SIGINT, signal.SIGTERM), (1, 2))
    for (number, times), command in disturbed(count, GRID, ways):
        process = command.type()
        wait_until(partial(checkpoints, command.outputs), "a checkpoint")
        for _ in range(times):
            process.send_signal(number)
            count.injected += 1
        count.complaints += process.wait(timeout=PATIENCE_S) != 128 + number
        count.complaints += bool(living(command.outputs))
        count.complaints += (
            number.name not in command.log() or "Traceback" in command.log()
        )
        count.complaints += command.finish() != 0
    return count


def checkpoints(outputs: Path) -> int:
    """Return the number of checkpoints of all runs."""
    store = RunStore(outputs)
    return sum(len(store.run(run).checkpoints()) for run in store.ids())


def failing_calls(seed: int) -> Count:
    """Let calls to the file system fail now and then in the sweep, its server and its jobs.

    Each sweep must end with a message; typed again it must finish. The number of calls that failed
    is unknown, so a sweep counts as one fault.
    """
    count = Count("EIO, EINTR, EACCES and ENOENT", seed)
    for number, command in disturbed(count, GRID, range(20)):
        count.injected += 1
        environment = {
            "FAULTY_FOLDER": str(command.outputs),
            "FAULTY_RATE": str(FAILING_CALLS),
            "FAULTY_SEED": f"{seed} {number}",
            "PYTHONPATH": str(FAULTY),
        }
        code = command.type(**environment).wait(timeout=PATIENCE_S)
        count.hung += code not in (0, 1, 2)
        count.complaints += "Traceback" in command.log()
        count.complaints += command.finish() != 0
    return count


def killed_rounds(seed: int) -> Count:
    """Kill a sweep that decides, alone or with all its processes, over its rounds; type it again.

    Between two kills, at least one run ends.
    """
    count, rng = Count("rounds killed: twins", seed), random.Random(seed)
    with TemporaryDirectory(ignore_cleanup_errors=True) as conf:
        for _, command in disturbed(count, twins(Path(conf), PLANTED), [None]):
            for number in range(1, 11):
                process = command.type()
                while (
                    process.poll() is None
                    and len(list(command.outputs.glob("runs/*/result.json"))) < number
                ):
                    time.sleep(0.02)
                await_training(process, command.outputs, rng)
                if process.poll() is None:
                    count.injected += 1
                    process.kill()
                    if rng.random() < 0.5:
                        kill_marked(command.mark)
                process.wait()
            count.complaints += command.finish() != 0
            kill_marked(command.mark)
    return count


def verdicts(outputs: Path) -> list[Any]:
    """Return every verdict with its intervals and its expected cost, without hours and seconds."""
    found = []
    for path in sorted((outputs / "tables").glob("*.claims.json")):
        for verdict in json.loads(path.read_text())["verdicts"]:
            numbers = verdict["numbers"]
            numbers.get("price", {}).pop("hours", None)
            for contrast in numbers.get("contrasts", ()):
                contrast.get("costs", {}).pop("seconds", None)
                contrast.get("speedup", {}).pop("seconds", None)
            found.append(
                [verdict["claim"], verdict["measure"], verdict["verdict"], numbers]
            )
    return found


def tables(outputs: Path) -> dict[str, Any]:
    """Make every table from the records; return them without the columns that hold times."""
    write_tables(outputs, collect(outputs))
    found: dict[str, Any] = {}
    for path in sorted((outputs / "tables").iterdir()):
        if path.suffix not in (".csv", ".tex", ".txt"):
            continue
        found[path.name] = text = path.read_text()
        rows = list(csv.DictReader(io.StringIO(text)))
        if rows and "run" in rows[0]:
            timeless = [*rows[0].keys() - CHANGES_WITH_TIME]
            found[path.name] = [{name: row[name] for name in timeless} for row in rows]
    return found
