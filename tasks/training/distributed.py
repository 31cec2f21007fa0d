"""One run on several devices: a process (a rank) for each, and every batch split between them.

The job starts the ranks of its machine as fresh processes of the same command, and ends with them.
Rank 0 claims the attempt and writes the result; the first rank that fails records why. A rank that
is killed cannot, so the job records it. With several machines NODE_RANK, MASTER_ADDR and
MASTER_PORT say which machine it is and where they meet.
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

MARK = "HEADROOM_RANK"  # set for ranks, not for the job that starts them
MEETING = "HEADROOM_MEETING"  # the init_method of torch.distributed
GRACE_S = 30.0  # for the other ranks to end, once one has failed


def supervise(run: Run, devices: int, nodes: int) -> int:
    """Start the ranks of this machine; return the exit code of the first that failed."""
    node, common = 0, dict(os.environ)
    before = len(run.attempts())
    with tempfile.TemporaryDirectory(prefix="headroom-") as folder:
        if nodes > 1:
            node = int(os.environ.get("NODE_RANK", "0"))
            address, port = (os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT"))
            if not address or not port:
                expected = "1, since MASTER_ADDR and MASTER_PORT do not say where the machines meet"
                remedy = "choose hydra/launcher=slurm"
                raise invalid_value("trainer.num_nodes", nodes, expected, remedy)
            common[MEETING] = f"tcp://{address}:{port}"
        else:  # no other process can connect to a file
            common[MEETING] = f"file://{folder}/meeting"
            if sys.platform == "linux":
                common["GLOO_SOCKET_IFNAME"] = "lo"
        common["NODE_RANK"] = str(node)
        command = [sys.executable, "-m", "tasks.train", str(run.path)]
        processes = []
        for local in range(devices):
            environment = {**common, MARK: str(node * devices + local), "LOCAL_RANK": str(local)}
            # Ranks hold the other end of a pipe, and end with this process.
            started = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE)
            processes.append(started)
        pass_signals_on(processes)
        code = exit_code_of(processes)
        if code == -signal.SIGKILL:
            for attempt in run.attempts()[before:]:  # the other ranks say that they lost one
                attempt.finish(Cause.KILLED, overrule=True)
        return code if code >= 0 else 1


def pass_signals_on(processes: list[subprocess.Popen[bytes]]) -> None:
    """Pass signals on to the ranks: a stop as SIGTERM, a second Ctrl-C as SIGKILL."""
    asked = False

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if number in STOPS:
            again, asked = asked and number == signal.SIGINT, True
            number = signal.SIGKILL if again else signal.SIGTERM
        for process in processes:
            process.send_signal(number)

    for number in (*STOPS, signal.SIGUSR1):  # the last one asks for stacks
        signal.signal(number, pass_on)


def exit_code_of(processes: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all ranks; return the exit code of the first that failed (-N: by signal N), or 0."""
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
    """Join the other ranks of the run with this `trainer` section."""

    def end_with_parent() -> None:
        os.read(0, 1)  # nothing is ever written there: it returns when the parent is gone
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
    """Leave the other ranks, if any: threads of gloo that outlive Python abort the process."""
    if dist.is_initialized():
        dist.destroy_process_group()


class SecondaryAttempt(Attempt):
    """The attempt of a rank other than the first, which writes only why it failed."""

    def heartbeat(self, **fields: Any) -> None:
        """Do nothing: rank 0 has the heartbeat."""


class SynchronizedStop(Interruption):
    """The stop of all ranks after the same step, once any of them was asked to stop.

    A rank may be asked twice for one request, so only the job stops at once.
    """

    asked = False

    def synchronize(self) -> None:
        """Share the request; every rank calls this at the same step."""
        flag = torch.tensor(int(self.asked))
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        self.requested = bool(flag)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        before, self.asked = self.asked, True
        if not before and not self._deferred:
            self.requested = True
            raise Interrupted
