"""The interface between the schedule and the backends: jobs and the resources of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sweeper.size_server import SizeServer
from sweeper.store.attempts import START_LOG
from sweeper.store.errors import invalid_value
from sweeper.store.registry import ROOT
from sweeper.store.runs import Run


@dataclass(frozen=True)
class Resources:
    """The devices and threads of one run, from the `trainer` section of its config."""

    accelerator: str
    devices: int  # per node
    nodes: int
    threads: int  # per device

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Resources:
        """Return the resources of a run with this config."""
        trainer = config["trainer"]
        return cls(
            trainer["accelerator"],
            trainer["devices"],
            trainer["num_nodes"],
            trainer["threads"],
        )

    @classmethod
    def of_record(cls, run: Path) -> Resources:
        """Return the resources of the run in this directory."""
        return cls.of(Run.open(run).record().config)

    def refuse_nodes(self, name: str) -> None:
        """Raise UserError if a run needs several machines; the backend `name` provides one."""
        if self.nodes != 1:
            expected = f"1, since hydra/launcher={name} starts a run on one machine"
            raise invalid_value(
                "trainer.num_nodes", self.nodes, expected, "choose hydra/launcher=slurm"
            )


def device_hours(config: Mapping[str, Any], seconds: float) -> float:
    """Return the device hours of a run that trains for this many seconds."""
    needed = Resources.of(config)
    return seconds * needed.devices * needed.nodes / 3600


@dataclass(frozen=True)
class BackendContext:
    """The arguments of a backend."""

    options: Any  # an `Options` of the backend's module
    resources: Collection[Resources]  # of all runs of the plan
    logger: str
    outputs: Path
    process: SizeServer  # forks jobs on this machine


@dataclass(frozen=True)
class Job:
    """A run to schedule."""

    run: str
    cost: float  # training FLOPs
    parent: str | None = None
    rank: int = 0  # lower ranks start first


class Backend(Protocol):
    """A place where runs execute. It starts runs from their records and reports ended jobs."""

    # The folder that jobs start from, if this process does not fork them.
    code: Path = ROOT
    # The least time between two polls of a job, to spare shared disks.
    poll_s: float = 1.0
    queues: bool = False  # True: it queues a run behind its running parent
    slots: int  # the number of runs at a time
    device: str  # "cpu" or "gpu"

    @property
    def note(self) -> str:
        """One line on the event that the backend waits for; empty if there is none."""
        return ""

    def start(self, run: Path, slot: int, after: int | None = None) -> int:
        """Start the run in a directory and return a handle.

        `after`: the handle of its parent's job, if the backend queues runs and the parent runs.
        """

    def warm(self) -> None:
        """Begin to prepare for a fast first start; return at once."""
        return

    def grant(self, job: Job, free: Sequence[int]) -> int | None:
        """Return the slot to start a run in, or None if the run has to wait.

        Later runs do not pass a run that has to wait: the schedule asks for this run again.
        """
        return free[0] if free else None

    def ended(self, timeout: float) -> list[int]:
        """Return the handles of ended jobs. Wait up to `timeout` seconds for the first."""

    def begun(self, job: int) -> bool:
        """Return False while a job waits in a queue. The schedule does not poll such jobs."""
        return True

    def signal(self, job: int, number: int) -> None:
        """Send a signal to a job."""

    def start_log(self, job: int | None) -> str:
        """Return in words where a job writes errors before it claims its attempt."""
        return f"{START_LOG} beside its record"

    def devices(self, slot: int) -> str:
        """Return the value of CUDA_VISIBLE_DEVICES for a slot; empty if unknown."""
        return ""

    def exit_reason(self, job: int) -> str:
        """Return why the engine ended a job for good, such as by `scancel`; empty if it did not."""
        return ""
