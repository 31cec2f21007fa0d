"""What a Slurm job executes: the frozen record, by the command that executes it everywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any


class Work:
    """One task per node. submitit calls it when the job starts and again when Slurm requeues it.

    The run itself gets SIGTERM (from Slurm at a preemption or scancel, from `checkpoint` before the
    time limit), saves, and ends with a code other than 0; the next start goes on from there.
    """

    def __init__(self, run: str, root: str) -> None:
        self._run = run
        self._root = root
        self._pid = 0

    def __call__(self) -> None:
        """Train.

        Raises:
            SystemExit: with the code of a run that was not finished, so that Slurm knows it too.
        """
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a question to the run, which hears it too
        process = subprocess.Popen(
            [sys.executable, "-m", "tasks.train", self._run],
            cwd=self._root,
            env={**os.environ, **_node()},
            preexec_fn=_ignore_notice,
        )
        self._pid = process.pid
        # Not process.wait(): it would hold a lock that `checkpoint`, a signal handler, needs.
        _, status = os.waitpid(process.pid, 0)
        self._pid = 0
        code = os.waitstatus_to_exitcode(status)
        process.returncode = code
        if code != 0:
            sys.exit(code if code > 0 else 128 - code)

    def checkpoint(self) -> Any:
        """Let the run save before the time limit; what submitit requeues."""
        from submitit.helpers import DelayedSubmission

        if self._pid:
            os.kill(self._pid, signal.SIGTERM)
            os.waitpid(self._pid, 0)
        return DelayedSubmission(Work(self._run, self._root))


def _ignore_notice() -> None:
    # Slurm announces the time limit to every process of the job by this signal; it ends those that
    # do not expect it. Only this wrapper does.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


def _node() -> dict[str, str]:
    """Which node of the job this is, in the words of tasks.ranks; nothing where it is the only."""
    from submitit.helpers import TorchDistributedEnvironment

    if os.environ.get("SLURM_NNODES", "1") == "1":
        return {}
    job = TorchDistributedEnvironment()
    return {
        "NODE_RANK": str(job.rank),
        "MASTER_ADDR": job.master_addr,
        "MASTER_PORT": str(job.master_port),
    }
