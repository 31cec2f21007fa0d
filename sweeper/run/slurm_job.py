"""The code that a Slurm job executes: it trains runs one after the other."""

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
"""The exit code of `tasks.train` after SIGTERM. The Slurm job then has the same exit code."""


def job_file(run: Path) -> Path:
    """Return the path of the file that names the Slurm job of a run."""
    return run.parent.parent / "slurm" / f"{run.name}.json"


def belongs(run: Path, name: str) -> bool:
    """Return whether the job with this name has to train a run.

    A run that was submitted twice belongs to the later job, so that two jobs never train the same
    run. If the run is finished, return False.
    """
    job = read_object(job_file(run), keys=("name",)) or {}
    return job.get("name") == name and not (run / "result.json").exists()


@dataclass
class RunsWork:
    """A callable that trains runs one after the other. submitit calls it in a Slurm job.

    submitit calls it once per node whenever the job starts, also after Slurm has requeued the job.
    If a run fails, the next one still starts. Before the time limit, submitit calls `checkpoint`
    and requeues the job.

    A run receives SIGTERM from Slurm at a preemption or scancel, and from `checkpoint` before the
    time limit. The run then saves and exits with INTERRUPTED. If the job starts again, it continues
    this run.

    Attributes:
        runs: the directories of the runs.
        root: the folder of the code.
        name: the name of the job. It trains only the runs for which `belongs` is True.
    """

    runs: Sequence[str]
    root: str
    name: str
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    def __call__(self) -> None:
        """Train the runs. Raise SystemExit if a run did not finish, so that the job fails."""
        stopping = False

        def stop(number: int, frame: object) -> None:
            nonlocal stopping
            stopping = True

        # Slurm sends SIGTERM and SIGUSR1 to this process and to the run's process. The watchdog
        # uses SIGUSR1 to get the stacks of the run, so ignore it here.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, stop)
        environment = dict(os.environ)
        if os.environ.get("SLURM_NNODES", "1") != "1":
            from submitit.helpers import TorchDistributedEnvironment

            # In the run's process, tasks.ranks reads these variables.
            node = TorchDistributedEnvironment()
            environment |= {
                "NODE_RANK": str(node.rank),
                "MASTER_ADDR": node.master_addr,
                "MASTER_PORT": str(node.master_port),
            }
        code = 0
        for run in self.runs:
            if stopping:
                code = INTERRUPTED
            if code == INTERRUPTED:
                break
            if belongs(Path(run), self.name):
                code = self._execute(run, environment) or code
        if code:
            sys.exit(code)

    def checkpoint(self) -> Any:
        """Send SIGTERM to the current run, so that it saves, and wait until it has ended.

        Return the submission that submitit requeues.
        """
        from submitit.helpers import DelayedSubmission

        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._process.pid, signal.SIGTERM)
                self._wait(self._process)
        following: Any = replace(self)
        return DelayedSubmission(following)

    def _execute(self, run: str, environment: Mapping[str, str]) -> int:
        """Train a run and return its exit code, or 128 + n if the signal n ended it."""

        def ignore_notice() -> None:
            # Before the time limit, Slurm sends SIGUSR2 to every process of a job. It would kill
            # the run's process, so ignore it there. In the parent process, submitit handles it by
            # calling `checkpoint`.
            signal.signal(signal.SIGUSR2, signal.SIG_IGN)

        command = [sys.executable, "-m", "tasks.train", run]
        self._process = subprocess.Popen(
            command, cwd=self.root, env=environment, preexec_fn=ignore_notice
        )
        return self._wait(self._process)

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        # `checkpoint` may interrupt this thread here and wait for the same process. process.wait()
        # holds a lock and would then deadlock, so call os.waitpid instead.
        code = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        process.returncode, self._process = code, None
        return code if code >= 0 else 128 - code
