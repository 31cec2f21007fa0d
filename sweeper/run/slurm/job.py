"""What a Slurm job executes: frozen records, by the command that executes them everywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeper.store.files import read_object

INTERRUPTED = 75
"""The exit code of a run that was asked to stop (tasks/train.py); so is its job."""
LEFT = "HEADROOM_LEFT"
"""Names, to a sweep that is a job, the folder of the code that was pinned when it was left."""


class _Command:
    """A process that a job waits for."""

    _pid = 0

    def _execute(self, command: Sequence[str], folder: str, environment: Mapping[str, str]) -> int:
        """The exit code, of a signal as a shell tells it."""
        process = subprocess.Popen(command, cwd=folder, env=environment, preexec_fn=_ignore_notice)
        self._pid = process.pid
        # Not process.wait(): it would hold a lock that `checkpoint`, a signal handler, needs.
        _, status = os.waitpid(process.pid, 0)
        self._pid = 0
        code = os.waitstatus_to_exitcode(status)
        process.returncode = code
        return code if code >= 0 else 128 - code

    def _end(self, number: signal.Signals) -> None:
        if self._pid:
            os.kill(self._pid, number)
            os.waitpid(self._pid, 0)


class Work(_Command):
    """One task per node. submitit calls it when the job starts and again when Slurm requeues it.

    Its runs are trained one after the other; one that fails leaves the others theirs. A run gets
    SIGTERM (from Slurm at a preemption or scancel, from `checkpoint` before the time limit), saves,
    and ends with a code other than 0; the next start goes on from there.
    """

    def __init__(self, runs: Sequence[str], root: str, name: str) -> None:
        """`name` is the job's: what has been handed in under another since is not its any more."""
        self._runs = runs
        self._root = root
        self._name = name

    def __call__(self) -> None:
        """Train.

        Raises:
            SystemExit: with the code of a run that was not finished, so that Slurm knows it too.
        """
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a question to the run, which hears it too
        codes = []
        for run in self._runs:
            if belongs(Path(run), self._name):
                command = [sys.executable, "-m", "tasks.train", run]
                codes.append(self._execute(command, self._root, {**os.environ, **_node()}))
            if codes and codes[-1] == INTERRUPTED:
                break
        if any(codes):
            sys.exit(next(filter(None, reversed(codes))))

    def checkpoint(self) -> Any:
        """Let the run save before the time limit; what submitit requeues."""
        from submitit.helpers import DelayedSubmission

        self._end(signal.SIGTERM)
        return DelayedSubmission(Work(self._runs, self._root, self._name))


class Sweep(_Command):
    """A sweep as a job. Whatever ends it leaves its runs to the queue, and its next start goes on
    from there: it is killed before its time limit, and heeds no signal otherwise."""

    def __init__(self, command: Sequence[str], folder: str, code: str) -> None:
        """`command` is executed in a folder; its runs are of the code in another."""
        self._command = command
        self._folder = folder
        self._code = code

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
        if code := self._execute(self._command, self._folder, {**own, LEFT: self._code}):
            sys.exit(code)

    def checkpoint(self) -> Any:
        """End it before the time limit; what submitit requeues."""
        from submitit.helpers import DelayedSubmission

        self._end(signal.SIGKILL)
        return DelayedSubmission(Sweep(self._command, self._folder, self._code))


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
