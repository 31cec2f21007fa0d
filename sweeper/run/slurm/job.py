"""What a Slurm job executes: frozen records, by the command that executes them everywhere."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from sweeper.store.files import read_object

INTERRUPTED = 75
"""The exit code of a run that was asked to stop (tasks/train.py); so is its job."""
LEFT = "HEADROOM_LEFT"
"""Names, to a sweep that is a job, the folder of the code that was pinned when it was left."""


@dataclass
class _Processes(ABC):
    """What a job waits for."""

    _running: dict[int, subprocess.Popen[bytes]] = field(init=False, default_factory=dict)
    _before_requeue: ClassVar[signal.Signals]

    @abstractmethod
    def __call__(self) -> None:
        """Start them, and wait."""

    def _start(self, command: Sequence[str], folder: str, environment: Mapping[str, str]) -> int:
        """The number of the process."""
        process = subprocess.Popen(command, cwd=folder, env=environment, preexec_fn=_ignore_notice)
        self._running[process.pid] = process
        return process.pid

    def _wait(self, number: int) -> int:
        """Return the exit code of a process; of a signal as a shell reports it."""
        # Not process.wait(): it would hold a lock that `checkpoint`, a signal handler, needs.
        _, status = os.waitpid(number, 0)
        code = os.waitstatus_to_exitcode(status)
        self._running.pop(number).returncode = code
        return code if code >= 0 else 128 - code

    def _end(self, number: signal.Signals) -> None:
        """Signal all, and wait for them."""
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
        for process in [*self._running]:
            with contextlib.suppress(ChildProcessError):
                self._wait(process)

    def checkpoint(self) -> Any:
        """End what runs before the time limit; what submitit requeues."""
        from submitit.helpers import DelayedSubmission

        self._end(self._before_requeue)
        return DelayedSubmission(replace(self))


@dataclass
class Work(_Processes):
    """One task per node. submitit calls it when the job starts and again when Slurm requeues it.

    It trains its runs one after the other; a run that fails does not stop those after it. A run
    gets SIGTERM (from Slurm at a preemption or scancel, from `checkpoint` before the time limit),
    saves, and ends with a code other than 0; the next start continues from there.

    Attributes:
        runs: their directories.
        root: the folder of the code.
        name: the job's: what has been handed in under another since is not its any more.
    """

    runs: Sequence[str]
    root: str
    name: str
    _stopping: bool = field(init=False, default=False)
    _before_requeue = signal.SIGTERM  # at which runs save

    def __call__(self) -> None:
        """Train.

        Raises:
            SystemExit: with the code of a run that was not finished, so that Slurm knows it too.
        """
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a question to the run, which hears it too
        signal.signal(signal.SIGTERM, self._stop)  # those that run hear it from Slurm, too
        codes = []
        for run in self.runs:
            if self._stopping or INTERRUPTED in codes:
                codes.append(INTERRUPTED)
                break
            if belongs(Path(run), self.name):
                command = [sys.executable, "-m", "tasks.train", run]
                codes.append(self._wait(self._start(command, self.root, {**os.environ, **_node()})))
        if any(codes):
            sys.exit(INTERRUPTED if INTERRUPTED in codes else max(codes))

    def _stop(self, number: int, frame: object) -> None:
        self._stopping = True


@dataclass
class Sweep(_Processes):
    """A sweep as a job: a command, executed in a folder; its runs are of the code in another.

    Whatever ends it leaves its runs to the queue, and its next start goes on from there: it is
    killed before its time limit, and heeds no signal otherwise.
    """

    command: Sequence[str]
    folder: str
    code: str
    _before_requeue = signal.SIGKILL

    def __call__(self) -> None:
        """Sweep.

        Raises:
            SystemExit: with the code of a sweep that is not done.
        """
        # Of this job only where the cluster is: the rest would speak for jobs that it hands in.
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SLURM", "SUBMITIT_")) or name == "SLURM_CONF"
        }
        process = self._start(self.command, self.folder, {**own, LEFT: self.code})
        if code := self._wait(process):
            sys.exit(code)


def place(run: Path) -> Path:
    """The file that says which job a run was handed in as, of all the last."""
    return run.parent.parent / "slurm" / f"{run.name}.json"


def belongs(run: Path, name: str) -> bool:
    """Whether a run is yet to be trained, and by the job of this name: no two are at it."""
    said = read_object(place(run), keys=("name",)) or {}
    return said.get("name") == name and not (run / "result.json").exists()


def _ignore_notice() -> None:
    # Slurm announces the time limit to every process of the job by this signal; it ends those that
    # do not expect it. Only this wrapper does.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


def _node() -> dict[str, str]:
    """Which node of the job this is, in the words of tasks.ranks; nothing where it is the only."""
    if os.environ.get("SLURM_NNODES", "1") == "1":
        return {}
    from submitit.helpers import TorchDistributedEnvironment

    job = TorchDistributedEnvironment()
    return {
        "NODE_RANK": str(job.rank),
        "MASTER_ADDR": job.master_addr,
        "MASTER_PORT": str(job.master_port),
    }
