"""Training on several devices: each has a process (rank), and the ranks share every batch.

The parent process starts the ranks of its machine, and waits for them. Rank 0 claims the attempt
and writes the result. The first rank that fails records the cause. If a rank is killed, the parent
process records this. If a run uses several machines, the environment variable NODE_RANK is the
number of this machine, and the ranks connect at MASTER_ADDR and MASTER_PORT.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    start_processes,
)

from sweeper.store.attempts import Attempt, Cause
from sweeper.store.errors import invalid_value
from sweeper.store.runs import Run
from tasks.training.causes import STOPS
from tasks.training.machine import kind_of

# After a rank has failed, wait this long before the other ranks get SIGTERM, and this long again
# before they get SIGKILL.
GRACE_S = 10.0


def supervise(run: Run, trainer: Mapping[str, Any], train: Callable[[str], int]) -> int:
    """Start the ranks of this machine, and wait for them.

    Args:
        trainer: the section `trainer` of the run's config.
        train: the function that each rank calls with the path of the run.

    Returns:
        The exit code of the first rank that failed, or 0.

    Raises:
        UserError: the run uses several machines, and the environment lacks MASTER_ADDR, MASTER_PORT
            or NODE_RANK.
    """
    before = len(run.attempts())
    with tempfile.TemporaryDirectory(prefix="headroom-") as folder:
        meeting = _meeting(trainer["num_nodes"], folder)
        ranks = start_processes(
            _rank,
            (meeting, trainer, train, str(run.path)),
            trainer["devices"],
            join=False,
        )
        assert ranks is not None
        pass_signals_on(ranks.processes)
        code = exit_code_of(ranks)
    if code == -signal.SIGKILL:
        # The other ranks may have recorded a lost connection as the cause. Replace it. Only the
        # first new attempt is this job's, because later ones belong to other jobs.
        for attempt in run.attempts()[before : before + 1]:
            attempt.finish(Cause.KILLED, overrule=True)
    return code if code >= 0 else 1


def _meeting(nodes: int, folder: str) -> str:
    """Return the init_method of torch.distributed, through which the ranks of a run connect."""
    if nodes == 1:
        # Connect through a file in a private folder. Any process could connect to a port.
        return f"file://{folder}/meeting"
    needed = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK")
    if not all(map(os.environ.get, needed)):
        expected = f"the environment variables {', '.join(needed)}"
        remedy = (
            "set them on each machine (docs/gpus.md), or choose hydra/launcher=slurm"
        )
        raise invalid_value("trainer.num_nodes", nodes, expected, remedy)
    return "env://"


def pass_signals_on(processes: list[Any]) -> None:
    """Forward signals to the ranks.

    Stop signals become SIGTERM. After a stop signal, Ctrl-C becomes SIGKILL. SIGUSR1 is unchanged.
    """
    asked = False

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if number in STOPS:
            again, asked = asked and number == signal.SIGINT, True
            number = signal.SIGKILL if again else signal.SIGTERM
        for process in processes:
            if process.is_alive():
                os.kill(process.pid, number)

    for number in (*STOPS, signal.SIGUSR1):  # on SIGUSR1, a rank prints its stacks
        signal.signal(number, pass_on)


def exit_code_of(ranks: ProcessContext) -> int:
    """Wait for all ranks. Return the exit code of the first rank that failed, or 0.

    If signal N killed the rank, its exit code is -N.
    """
    try:
        while not ranks.join(grace_period=GRACE_S):
            pass
    except ProcessExitedException as error:
        return error.exit_code
    return 0


def _rank(
    local: int,
    meeting: str,
    trainer: Mapping[str, Any],
    train: Callable[[str], int],
    path: str,
) -> None:
    """Connect this process to the other ranks, and exit with the code that `train` returns.

    `local` is the number of this rank among the ranks of this machine.
    """
    devices, nodes = trainer["devices"], trainer["num_nodes"]
    node = int(os.environ["NODE_RANK"]) if nodes > 1 else 0
    # Fabric reads these variables.
    os.environ.update(LOCAL_RANK=str(local), NODE_RANK=str(node))
    if nodes == 1 and sys.platform == "linux":
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"

    cuda = kind_of(trainer["accelerator"]) == "cuda"
    if cuda:
        torch.cuda.set_device(local)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if cuda else "gloo",
        init_method=meeting,
        rank=node * devices + local,
        world_size=devices * nodes,
    )
    code = train(path)
    # Wait for the other ranks, except after a failure, because then they may never get here.
    if code in (os.EX_OK, os.EX_TEMPFAIL):
        dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    # Skip Python's cleanup at exit, during which the threads of gloo could abort the process.
    os._exit(code)


class SecondaryAttempt(Attempt):
    """The attempt on a rank other than 0, which records nothing except the cause of a failure."""

    def heartbeat(self, **fields: Any) -> None:
        """Do nothing: rank 0 writes the heartbeat."""
