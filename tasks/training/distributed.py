"""One run on several devices: a process (a rank) for each, and every batch split between them.

The job starts the ranks of its machine as fresh processes of the same command and ends when they
have ended. Rank 0 claims the attempt and writes the record; of a failure the first word stays,
whoever says it. On one machine they meet by a file. On several each starts its own, and NODE_RANK,
MASTER_ADDR and MASTER_PORT tell which it is and where they meet.
"""

from __future__ import annotations

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

from sweeper.store.attempts import Attempt
from sweeper.store.errors import invalid_value
from sweeper.store.registry import ROOT
from sweeper.store.runs import Run
from tasks.training.signals import STOPS, Interrupted, Interruption

MARK = "HEADROOM_RANK"  # tells a rank from the job that starts the ranks
MEETING = "HEADROOM_MEETING"  # where the ranks find each other, as torch.distributed spells it
GRACE_S = 30.0  # for the other ranks to say why they end, once one has ended


def supervise(run: Run, devices: int, nodes: int) -> int:
    """Start the ranks of this machine and wait for them; the exit code of the first that failed."""
    with tempfile.TemporaryDirectory(prefix="headroom-") as folder:
        meeting = _at_address(nodes) if nodes > 1 else _in_folder(folder)
        node = int(os.environ.get("NODE_RANK", "0")) if nodes > 1 else 0
        return _first_failure(_started(run, devices, node, meeting))


def _started(
    run: Run, devices: int, node: int, meeting: Mapping[str, str]
) -> list[subprocess.Popen[bytes]]:
    common = {**os.environ, **meeting, "NODE_RANK": str(node)}
    processes = []
    for local in range(devices):
        environment = {**common, MARK: str(node * devices + local), "LOCAL_RANK": str(local)}
        command = [sys.executable, "-m", "tasks.train", str(run.path)]
        # They end with this process, of which they hold the other end of a pipe.
        started = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE)
        processes.append(started)

    asked = False

    def hand_on(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        for process in processes:
            process.send_signal(signal.SIGKILL if asked else signal.SIGTERM)
        asked = True

    def ask_for_stacks(number: int, frame: FrameType | None) -> None:
        for process in processes:
            process.send_signal(number)

    for number in STOPS:
        signal.signal(number, hand_on)
    signal.signal(signal.SIGUSR1, ask_for_stacks)
    return processes


def _first_failure(processes: list[subprocess.Popen[bytes]]) -> int:
    failed, deadline = 0, float("inf")
    while any(process.poll() is None for process in processes):
        codes = [process.returncode for process in processes if process.returncode]
        if codes and not failed:
            failed, deadline = codes[0], time.monotonic() + GRACE_S
        if time.monotonic() > deadline:
            for process in processes:
                process.kill()
        time.sleep(0.05)
    codes = [process.returncode for process in processes if process.returncode]
    code = failed or (codes[0] if codes else 0)
    return code if code >= 0 else 1


def _in_folder(folder: str) -> dict[str, str]:
    """On one machine: nothing that another could connect to."""
    loopback = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    return {MEETING: f"file://{folder}/meeting", **loopback}


def _at_address(nodes: int) -> dict[str, str]:
    address, port = (os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT"))
    if not address or not port:
        expected = "1, since MASTER_ADDR and MASTER_PORT do not say where the machines meet"
        raise invalid_value("trainer.num_nodes", nodes, expected, "choose hydra/launcher=slurm")
    return {MEETING: f"tcp://{address}:{port}"}


def is_rank() -> bool:
    """Whether this process is one rank of several, rather than a whole job."""
    return MARK in os.environ


def join(trainer: Mapping[str, Any]) -> None:
    """Meet the other ranks of the run with this `trainer` section."""
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    cuda = torch.cuda.is_available() and trainer["accelerator"] != "cpu"
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if cuda else "gloo",
        init_method=os.environ[MEETING],
        rank=int(os.environ[MARK]),
        world_size=trainer["devices"] * trainer["num_nodes"],
    )


def leave() -> None:
    """Part from the other ranks, if any: threads of gloo that outlive Python abort the process."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _end_with_parent() -> None:
    os.read(0, 1)  # nothing is ever written there: it returns when the other end is closed
    os._exit(1)


class SecondaryAttempt(Attempt):
    """An attempt as the ranks other than the first have it: they only say why they failed."""

    def heartbeat(self, **fields: Any) -> None:
        """Rank 0's is enough."""


class SynchronizedStop(Interruption):
    """Stops all ranks after the same step: that at which the first of them was asked to.

    A cluster signals every process of a job and the job hands it on, so a rank may be asked twice
    though a person asked once. Stopping at once is the job's to do.
    """

    asked = False

    def synchronize(self) -> None:
        """Ask the others, who must do so at the same step."""
        flag = torch.tensor(int(self.asked))
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        self.requested = bool(flag)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        before, self.asked = self.asked, True
        if not before and not self._deferred:
            self.requested = True
            raise Interrupted
