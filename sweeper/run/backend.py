"""The interface between the schedule and the backends: jobs and the resources they take."""

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
    """The devices and threads that one run takes, from the `trainer` section of its config."""

    accelerator: str
    devices: int  # on each node
    nodes: int
    threads: int  # of each device's process

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Resources:
        """Return what a run with this config takes."""
        trainer = config["trainer"]
        return cls(
            trainer["accelerator"], trainer["devices"], trainer["num_nodes"], trainer["threads"]
        )

    @classmethod
    def of_record(cls, run: Path) -> Resources:
        """Return what the frozen run in this directory takes."""
        return cls.of(Run.open(run).record()["config"])

    def refuse_nodes(self, name: str) -> None:
        """Raise UserError if a run wants several machines; backend `name` starts it on one."""
        if self.nodes != 1:
            expected = f"1, since hydra/launcher={name} starts a run on one machine"
            raise invalid_value(
                "trainer.num_nodes", self.nodes, expected, "choose hydra/launcher=slurm"
            )


def device_hours(config: Mapping[str, Any], seconds: float) -> float:
    """Return the device hours of a run that trains this many seconds."""
    needed = Resources.of(config)
    return seconds * needed.devices * needed.nodes / 3600


@dataclass(frozen=True)
class BackendContext:
    """The input of a backend."""

    options: Any  # its module's `Options`
    resources: Collection[Resources]  # of the plan's runs
    logger: str
    outputs: Path
    process: SizeServer  # it forks jobs on this machine


@dataclass(frozen=True)
class Job:
    """A run, as the schedule needs it."""

    run: str
    cost: float  # training FLOPs
    parent: str | None = None
    rank: int = 0  # lower ranks start first


class Backend(Protocol):
    """A place where runs execute: it starts frozen records and reports when their processes end."""

    code: Path = ROOT  # that jobs start from, if they do not start from this process
    poll_s: float = 1.0  # at least, between two polls of a running job, to spare shared disks
    queues: bool = False  # whether it takes a run whose parent is running, to start it after that
    slots: int  # runs that it takes at a time
    device: str  # that runs train on: "cpu" or "gpu"

    @property
    def note(self) -> str:
        """One line on what the backend waits for; empty if it waits for nothing."""
        return ""

    def start(self, run: Path, slot: int, after: int | None = None) -> int:
        """Start the frozen run in a directory; return a handle. `after`: of its running parent."""

    def warm(self) -> None:
        """Prepare for a fast first start, without waiting."""
        return

    def grant(self, job: Job, free: Sequence[int]) -> int | None:
        """Return the slot to start a run in, or None if it has to wait.

        The schedule asks again about a run that has to wait, and starts no other before it.
        """
        return free[0] if free else None

    def ended(self, timeout: float) -> list[int]:
        """Return handles of jobs that ended; wait up to `timeout` seconds for the first."""

    def begun(self, job: int) -> bool:
        """Return whether a job may have begun; jobs that wait in a queue are not polled."""
        return True

    def signal(self, job: int, number: int) -> None:
        """Send a signal to a job."""

    def start_log(self, job: int | None) -> str:
        """Return the place where a job that ended before its attempt may say why."""
        return f"{START_LOG} beside its record"

    def devices(self, slot: int) -> str:
        """Return the GPUs of a slot as CUDA_VISIBLE_DEVICES names them; empty if unknown."""
        return ""

    def exit_reason(self, job: int) -> str:
        """Return why a job ended, if only the engine knows and another start would not help."""
        return ""
