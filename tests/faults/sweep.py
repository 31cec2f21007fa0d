"""Small sweeps for the fault suite, and their comparison with an undisturbed sweep.

Hundreds of kills need sweeps that start in a tenth of a second. So these have no command line: the
schedule runs in a process forked from this one, and so do the jobs. The schedule, the store and the
jobs are those of the product; the cases in commands.py run `sweep.py` itself.
"""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sweeper.run.backend import Backend, Job
from sweeper.run.failures import Watchdog
from sweeper.run.options import SweepOptions
from sweeper.run.schedule import Schedule
from sweeper.store.attempts import Attempt, Cause
from sweeper.store.files import canonical
from sweeper.store.identity import run_id
from sweeper.store.liveness import alive
from sweeper.store.metrics import read_metrics
from sweeper.store.records import Record
from sweeper.store.runs import RunStore
from tasks import train
from tasks.parse import data_of, parse
from tasks.size_server.fork import become_job
from tests import policies
from tests.tasks.jobs import config, last_words, science

RUNS = 4
STEPS = 60
SMALL = config(
    {
        "model.layers": 1,
        "trainer.steps": STEPS,
        "trainer.micro_batches": ...,
        "trainer.log_every": 1,
        "trainer.validate_every": 20,
        "trainer.checkpoint_every": 3,
    }
)
PATIENT = policies.policy(tries=10_000)
LOST = ("unfinished", "wrong", "overwritten", "accepted", "hung", "complaints")

Reference = dict[str, str]
"""The scientific content of each run of an undisturbed sweep."""


@dataclass
class Count:
    """The counters of one case. Those in LOST must be 0.

    Attributes:
        injected: faults, such as kills, signals, flipped bits and cuts.
        unfinished: runs without a result after recovery.
        wrong: runs or tables that differ from the undisturbed ones in a byte that is not a time.
        overwritten: results that changed after they were published.
        accepted: damaged files that were used as if they were intact.
        hung: waits that ran out of time.
        complaints: failures without the expected message or exit code.
        second_finishers: attempts that trained to the end after another had, which is allowed.
        steps: optimizer steps that were executed, according to the metrics.
        needed: optimizer steps of an undisturbed sweep.
    """

    case: str
    seed: int = 0
    injected: int = 0
    runs: int = 0
    unfinished: int = 0
    wrong: int = 0
    overwritten: int = 0
    accepted: int = 0
    hung: int = 0
    complaints: int = 0
    second_finishers: int = 0
    steps: int = 0
    needed: int = 0
    seconds: float = 0.0

    @property
    def lost(self) -> int:
        """The sum of everything that must not happen."""
        return sum(getattr(self, name) for name in LOST)

    def described(self) -> dict[str, Any]:
        """Return the line of JSON."""
        return {**asdict(self), "lost": self.lost, "seconds": round(self.seconds, 1)}


@dataclass(frozen=True)
class Setting:
    """The inputs of the cases.

    Attributes:
        source: an outputs folder with the data of the small runs.
        reference: the content of the undisturbed sweep.
        seed: of all random choices.
    """

    source: Path
    reference: Reference
    seed: int


@contextmanager
def settings(seed: int) -> Iterator[Setting]:
    """Prepare the data and run the undisturbed sweep."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        source, outputs = Path(folder) / "source", Path(folder) / "undisturbed"
        data_of(parse(SMALL), source).prepare_data()
        orchestrate(outputs, freeze(source, outputs, RUNS), ForkBackend())
        yield Setting(source, reference_of(outputs), seed)


@contextmanager
def small_sweep(
    setting: Setting, count: Count, folder: Path | None = None
) -> Iterator[tuple[Path, list[str]]]:
    """Yield a new outputs folder and the ids of its runs; afterwards compare and count."""
    with TemporaryDirectory(ignore_cleanup_errors=True, dir=folder) as place:
        outputs = Path(place) / "outputs"
        ids = freeze(setting.source, outputs, RUNS)
        assert set(ids) == set(setting.reference)
        yield outputs, ids
        compare(count, outputs, setting.reference)


def freeze(source: Path, outputs: Path, runs: int) -> list[str]:
    """Write the records of small runs, which differ in their seed, into a new outputs folder."""
    shutil.copytree(source / "data", outputs / "data")
    store = RunStore(outputs)
    configs = [{**SMALL, "seed": seed} for seed in range(runs)]
    return [store.freeze(Record(run_id(one), one)).id for one in configs]


def compare(count: Count, outputs: Path, reference: Reference) -> None:
    """Count what differs from the undisturbed runs, and the steps that were executed."""
    store = RunStore(outputs)
    for name, expected in reference.items():
        run = store.run(name)
        count.runs += 1
        if run.result() is None:
            count.unfinished += 1
        else:
            count.wrong += canonical(science(run)) != expected
        count.wrong += any(run.path.glob("differs-*"))
        count.needed += run.record().config["trainer"]["steps"]
        words = last_words(run)
        count.second_finishers += max(
            0, [w.get("cause") for _, w in words].count(Cause.DONE) - 1
        )
        for attempt, _ in words:
            rows = read_metrics(attempt.metrics_path)
            reached = max((row["step"] for row in rows), default=0)
            count.steps += max(0, reached - attempt.info().get("resumed_from", 0))


def reference_of(outputs: Path) -> Reference:
    """Return the content of every run of an undisturbed sweep: metrics and weights, no times."""
    store = RunStore(outputs)
    found = {name: canonical(science(store.run(name))) for name in store.ids()}
    assert found, outputs
    return found


class ForkBackend(Backend):
    """Two slots for jobs that are forked from this process.

    Each job first calls `sabotage` with the number of jobs started before it.
    """

    slots = 2
    device = "cpu"

    def __init__(self, sabotage: Callable[[int], None] = lambda started: None) -> None:
        self._sabotage = sabotage
        self._started = 0
        self._jobs: set[int] = set()

    def start(self, run: Path, slot: int) -> int:
        """Fork the job of a frozen record; return its pid, which is its handle."""
        number = self._started
        self._started += 1

        def work() -> int:
            self._sabotage(number)
            return train.main(str(run))

        pid = fork(work, run / "start.log")
        self._jobs.add(pid)
        return pid

    def ended(self, timeout: float) -> list[int]:
        """Return the pids of jobs that have ended."""
        deadline = time.monotonic() + timeout
        while True:
            done = [pid for pid in self._jobs if os.waitpid(pid, os.WNOHANG)[0]]
            if done or time.monotonic() > deadline:
                self._jobs -= set(done)
                return done
            time.sleep(0.01)

    def signal(self, job: int, number: int) -> None:
        """Signal a job that has not ended."""
        if job in self._jobs:
            os.kill(job, number)


def fork(work: Callable[[], int], log: Path) -> int:
    """Do this work in a new process with a group of its own; return its pid."""
    pid = os.fork()
    if pid == 0:
        become_job(work, log=str(log))
    with suppress(OSError):
        os.setpgid(pid, pid)
    return pid


def orchestrate(
    outputs: Path,
    ids: Sequence[str],
    backend: ForkBackend,
    *,
    policy: SweepOptions = PATIENT,
    watchdog: Watchdog | None = None,
) -> None:
    """Run these runs, with the schedule in this process."""
    jobs = [Job(name, 1.0) for name in ids]
    schedule = Schedule(RunStore(outputs), backend, jobs, policy)
    schedule.watchdog = watchdog
    schedule.execute()


def start(outputs: Path, ids: Sequence[str]) -> int:
    """Start a process that orchestrates these runs; return its pid."""

    def work() -> int:
        orchestrate(outputs, ids, ForkBackend())
        return 0

    return fork(work, outputs / "orchestrator.log")


def attempts(outputs: Path) -> list[Attempt]:
    """Return all attempts of all runs."""
    store = RunStore(outputs)
    return [one for name in store.ids() for one in store.run(name).attempts()]


def living(outputs: Path) -> dict[int, Attempt]:
    """Return the attempts whose jobs live, by pid."""
    every = ((one, one.info()) for one in attempts(outputs) if one.exit() is None)
    return {info["pid"]: one for one, info in every if alive(info)}


def kill(pid: int, number: int = signal.SIGKILL) -> bool:
    """Signal a process; return whether it existed."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
