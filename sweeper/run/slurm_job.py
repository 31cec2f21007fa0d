"""The work of a Slurm job: train frozen runs one after the other."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sweeper.store.files import read_object

INTERRUPTED = 75
"""The exit code of a run that was asked to stop (tasks/train.py), and of its job."""


def job_file(run: Path) -> Path:
    """Return the file that names the last job that a run was submitted in."""
    return run.parent.parent / "slurm" / f"{run.name}.json"


def belongs(run: Path, name: str) -> bool:
    """Return whether the job of this name is to train a run.

    A run that was submitted again belongs to the later job, so no two jobs train it.
    """
    job = read_object(job_file(run), keys=("name",)) or {}
    return job.get("name") == name and not (run / "result.json").exists()


@dataclass
class RunsWork:
    """The training of runs, by one task on each node.

    A run that fails does not stop those after it. A run gets SIGTERM (from Slurm at a preemption
    or scancel, from `checkpoint` before the time limit), saves, and ends with a code other than 0;
    the next start of the job continues it.

    submitit calls the object when the job starts, and again when Slurm requeues the job. Before the
    time limit submitit calls `checkpoint`, from a signal handler, and requeues the job.
    """

    runs: Sequence[str]  # their directories
    root: str  # the folder of the code
    name: str  # of the job; it trains only runs that belong to it
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    def __call__(self) -> None:
        """Train the runs; SystemExit if one did not finish, so that the job fails too."""
        stopping = False

        def stop(number: int, frame: object) -> None:
            nonlocal stopping
            stopping = True

        signal.signal(
            signal.SIGUSR1, signal.SIG_IGN
        )  # the watchdog asks the run for its stack
        signal.signal(signal.SIGTERM, stop)  # Slurm signals the run itself as well
        environment = dict(os.environ)
        if os.environ.get("SLURM_NNODES", "1") != "1":
            from submitit.helpers import TorchDistributedEnvironment

            node = TorchDistributedEnvironment()  # tasks.ranks reads these variables
            environment |= {
                "NODE_RANK": str(node.rank),
                "MASTER_ADDR": node.master_addr,
            }
            environment["MASTER_PORT"] = str(node.master_port)
        codes = []
        for run in self.runs:
            if stopping or INTERRUPTED in codes:
                codes.append(INTERRUPTED)
                break
            if belongs(Path(run), self.name):
                command = [sys.executable, "-m", "tasks.train", run]
                codes.append(self._execute(command, self.root, environment))
        if any(codes):
            sys.exit(INTERRUPTED if INTERRUPTED in codes else max(codes))

    def checkpoint(self) -> Any:
        """End the command before the time limit and return what submitit requeues.

        The run saves at SIGTERM.
        """
        from submitit.helpers import DelayedSubmission

        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._process.pid, signal.SIGTERM)
                self._wait(self._process)
        following: Any = replace(self)  # submitit calls it
        return DelayedSubmission(following)

    def _execute(
        self, command: Sequence[str], folder: str, environment: Mapping[str, str]
    ) -> int:
        """Return the exit code of a command; that of a signal is 128 and its number."""

        def ignore_notice() -> None:
            # Slurm announces the time limit to every process of a job by SIGUSR2, which ends a
            # process that does not expect it. The work handles the signal for its command.
            signal.signal(signal.SIGUSR2, signal.SIG_IGN)

        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, preexec_fn=ignore_notice
        )
        return self._wait(self._process)

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        # process.wait() holds a lock, and `checkpoint` may interrupt this thread in here.
        code = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        process.returncode, self._process = code, None
        return code if code >= 0 else 128 - code
