"""Training on several devices: each has a process (rank), and the ranks share every batch.

The job starts the ranks of its machine as new processes of the same command, and waits for them.
Rank 0 claims the attempt and writes the result. The first rank that fails records the cause. If a
rank is killed, the job records this. On several machines, the environment variable NODE_RANK is the
number of this machine, and the ranks connect at MASTER_ADDR and MASTER_PORT.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from sweeper.store.attempts import Attempt, Cause
from sweeper.store.errors import invalid_value
from sweeper.store.registry import ROOT
from sweeper.store.runs import Run
from tasks.training.causes import STOPS, Interrupted, Interruption
from tasks.training.machine import kind_of

# Environment variables that the job sets for its ranks:
MARK = "HEADROOM_RANK"  # the number of the rank
MEETING = "HEADROOM_MEETING"  # the init_method of torch.distributed
# After a rank has failed, the others may run this long before they are killed.
GRACE_S = 30.0


def supervise(run: Run, devices: int, nodes: int) -> int:
    """Start the ranks of this machine and wait for them.

    Returns:
        The exit code of the first rank that failed, or 0.

    Raises:
        UserError: there are several machines, but the environment names no address to connect at.
    """
    node, common = 0, dict(os.environ)
    before = len(run.attempts())
    with tempfile.TemporaryDirectory(prefix="headroom-") as folder:
        if nodes > 1:
            node = int(os.environ.get("NODE_RANK", "0"))
            address, port = (
                os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT")
            )
            if not address or not port:
                expected = "MASTER_ADDR and MASTER_PORT in the environment"
                remedy = "set both on each machine (docs/gpus.md), or choose hydra/launcher=slurm"
                raise invalid_value("trainer.num_nodes", nodes, expected, remedy)
            common[MEETING] = f"tcp://{address}:{port}"
        else:
            # The ranks meet at a file, because any other process could connect to a port.
            common[MEETING] = f"file://{folder}/meeting"
            if sys.platform == "linux":
                common["GLOO_SOCKET_IFNAME"] = "lo"
        common["NODE_RANK"] = str(node)

        command = [sys.executable, "-m", "tasks.train", str(run.path)]
        processes = []
        for local in range(devices):
            environment = {
                **common,
                MARK: str(node * devices + local),
                "LOCAL_RANK": str(local),
            }
            # The pipe closes when this process ends, and the rank then ends too (see `join`).
            started = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.PIPE
            )
            processes.append(started)
        pass_signals_on(processes)

        code = exit_code_of(processes)
        if code == -signal.SIGKILL:
            # The other ranks may have recorded a lost connection. Replace it with the true cause.
            for attempt in run.attempts()[before:]:
                attempt.finish(Cause.KILLED, overrule=True)
        return code if code >= 0 else 1


def pass_signals_on(processes: list[subprocess.Popen[bytes]]) -> None:
    """Forward signals to the ranks. A stop signal becomes SIGTERM, a second Ctrl-C SIGKILL."""
    asked = False

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if number in STOPS:
            again, asked = asked and number == signal.SIGINT, True
            number = signal.SIGKILL if again else signal.SIGTERM
        for process in processes:
            process.send_signal(number)

    for number in (*STOPS, signal.SIGUSR1):  # SIGUSR1 makes a process print its stacks
        signal.signal(number, pass_on)


def exit_code_of(processes: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all ranks. Return the exit code of the first rank that failed, or 0.

    The exit code of a rank that signal N killed is -N.
    """
    failed, deadline = 0, float("inf")
    while True:
        running = [process for process in processes if process.poll() is None]
        codes = [process.returncode for process in processes if process.returncode]
        if codes and not failed:
            failed, deadline = min(codes), time.monotonic() + GRACE_S
        if not running:
            return failed
        if time.monotonic() > deadline:
            for process in running:
                process.kill()
        time.sleep(0.05)


def is_rank() -> bool:
    """Return whether this process is one rank of several."""
    return MARK in os.environ


def join(trainer: Mapping[str, Any]) -> None:
    """Join the other ranks of a run. `trainer` is the section of this name in the config."""

    def end_with_parent() -> None:
        # Nothing is written to this pipe, so the read returns only when the parent ends.
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()

    cuda = kind_of(trainer["accelerator"]) == "cuda"
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if cuda else "gloo",
        init_method=os.environ[MEETING],
        rank=int(os.environ[MARK]),
        world_size=trainer["devices"] * trainer["num_nodes"],
    )


def leave() -> None:
    """Leave the process group, if any. Otherwise gloo's threads abort the process when it exits."""
    if dist.is_initialized():
        dist.destroy_process_group()


class SecondaryAttempt(Attempt):
    """The attempt in a rank other than 0. Such a rank records only the cause of its failure."""

    def heartbeat(self, **fields: Any) -> None:
        """Do nothing: rank 0 writes the heartbeat."""


class SynchronizedStop(Interruption):
    """An Interruption that stops all ranks after the same step if any rank received a signal.

    A rank may receive two signals for one request to stop, so it ignores a second one. After a
    second Ctrl-C, the job kills its ranks.
    """

    asked = False

    def synchronize(self) -> None:
        """Set `requested` if any rank received a signal. Every rank calls this after each step."""
        flag = torch.tensor(int(self.asked))
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        self.requested = bool(flag)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        before, self.asked = self.asked, True
        if not before and not self._deferred:
            self.requested = True
            raise Interrupted
