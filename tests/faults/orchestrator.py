"""A sweep without its command line: the schedule, and jobs forked from this warm process.

Hundreds of kills need starts that cost a tenth of a second. The schedule, the store and the jobs
are the product's own; what is left out is done by the cases that run `sweep.py` itself.
"""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from sweeper.run.backend import Backend, Job
from sweeper.run.failures import Policy
from sweeper.run.schedule import Schedule
from sweeper.run.watchdog import Watchdog
from sweeper.store.liveness import alive
from sweeper.store.runs import RunStore
from tasks import train
from tasks.size_server.fork import become_job
from tests import policies

Sabotage = Callable[[int], None]
"""Called in each job before it starts, with how many were started before it."""

PATIENT = policies.policy(tries=10_000)


def fork(work: Callable[[], int], log: Path) -> int:
    """The pid of a process of its own group that does this work."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of libraries, from 3.12 on
        pid = os.fork()
    if pid == 0:
        become_job(work, log=str(log), close=())
    with suppress(OSError):
        os.setpgid(pid, pid)
    return pid


class ForkBackend(Backend):
    """Two slots for jobs forked from this process."""

    slots = 2
    device = "cpu"

    def __init__(self, sabotage: Sabotage = lambda started: None) -> None:
        self._sabotage = sabotage
        self._started = 0
        self._jobs: set[int] = set()

    def start(self, run: Path, slot: int, after: int | None = None) -> int:
        """Fork the job of a frozen record; its pid is its handle."""
        number = self._started
        self._started += 1

        def work() -> int:
            self._sabotage(number)
            return train.main(str(run))

        pid = fork(work, run / "start.log")
        self._jobs.add(pid)
        return pid

    def ended(self, timeout: float) -> list[int]:
        """Pids of jobs that have ended."""
        deadline = time.monotonic() + timeout
        while True:
            done = [pid for pid in self._jobs if os.waitpid(pid, os.WNOHANG)[0]]
            if done or time.monotonic() > deadline:
                self._jobs -= set(done)
                return done
            time.sleep(0.01)

    def signal(self, job: int, number: int) -> None:
        """Signal a job that was not yet reaped."""
        if job in self._jobs:
            os.kill(job, number)


def orchestrate(
    outputs: Path,
    ids: Sequence[str],
    backend: ForkBackend,
    *,
    policy: Policy = PATIENT,
    watchdog: Watchdog | None = None,
) -> Schedule:
    """Run everything in this process; the schedule that did."""
    jobs = [Job(name, 1.0) for name in ids]
    schedule = Schedule(RunStore(outputs), backend, jobs, policy=policy, watchdog=watchdog)
    schedule.execute()
    return schedule


def start(outputs: Path, ids: Sequence[str]) -> int:
    """The pid of a process that orchestrates these runs."""

    def work() -> int:
        orchestrate(outputs, ids, ForkBackend())
        return 0

    return fork(work, outputs / "orchestrator.log")


def living(outputs: Path) -> list[int]:
    """Pids of the jobs that live."""
    store = RunStore(outputs)
    return [
        attempt.info()["pid"]
        for name in store.ids()
        for attempt in store.run(name).attempts()
        if attempt.exit() is None and alive(attempt.info())
    ]


def ended(pid: int) -> bool:
    """Whether a child of this process is gone; it is reaped."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def kill(pid: int, number: int = signal.SIGKILL) -> bool:
    """Signal a process; whether there was one."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
