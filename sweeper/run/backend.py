"""The interface between the schedule and the backends."""

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
    """The devices and threads that a run needs, from the `trainer` section of its config."""

    accelerator: str
    devices: int  # per node
    nodes: int
    threads: int  # per device

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Resources:
        """Return the resources that a run with this config needs."""
        trainer = config["trainer"]
        return cls(
            trainer["accelerator"],
            trainer["devices"],
            trainer["num_nodes"],
            trainer["threads"],
        )

    @classmethod
    def of_record(cls, run: Path) -> Resources:
        """Return the resources that the run in this directory needs."""
        return cls.of(Run.open(run).record().config)

    def refuse_nodes(self, name: str) -> None:
        """Raise UserError if a run needs several nodes, which the backend `name` cannot provide."""
        if self.nodes != 1:
            expected = f"1, since hydra/launcher={name} starts each run on one machine"
            raise invalid_value(
                "trainer.num_nodes", self.nodes, expected, "choose hydra/launcher=slurm"
            )


def device_hours(config: Mapping[str, Any], seconds: float) -> float:
    """Return the device hours of a run that has this config and trains for `seconds`."""
    needed = Resources.of(config)
    return seconds * needed.devices * needed.nodes / 3600


@dataclass(frozen=True)
class BackendContext:
    """The arguments for the function `backend` of a backend's module.

    Attributes:
        options: an instance of the module's class `Options`.
        resources: the resources that the runs of the plan need.
        logger: the logger that jobs import, "none" or "wandb".
        outputs: the outputs folder.
        process: the size server. The local backend forks jobs from it.
    """

    options: Any
    resources: Collection[Resources]
    logger: str
    outputs: Path
    process: SizeServer


@dataclass(frozen=True)
class Job:
    """A run to schedule.

    Attributes:
        run: the id of the run.
        cost: the training FLOPs of the run. Among jobs of equal rank, those with more FLOPs start
            first.
        parent: the id of the run whose weights this run starts from, or None.
        rank: jobs with lower ranks start first.
    """

    run: str
    cost: float
    parent: str | None = None
    rank: int = 0


class Backend(Protocol):
    """The interface of a backend, which starts a job for each run and reports ended jobs.

    Attributes:
        code: the folder of the code that jobs execute. The local backend does not use it.
        poll_s: the shortest time between two polls of a job, in seconds. It limits the load on
            shared disks.
        slots: how many runs the backend executes at the same time. Each run takes up one slot.
        device: "cpu" or "gpu".
    """

    code: Path = ROOT
    poll_s: float = 1.0
    slots: int
    device: str

    @property
    def note(self) -> str:
        """The reason why the backend cannot start runs at present, or "" if it can."""
        return ""

    def start(self, run: Path, slot: int) -> Any:
        """Start a run and return the handle of its job.

        A handle may be any object, but must differ from all other handles.

        Args:
            run: the directory of the run.
            slot: the slot that `grant` returned.
        """

    def warm(self) -> None:
        """Prepare the backend in the background, so that the first run starts fast."""
        return

    def grant(self, job: Job, free: Sequence[int]) -> int | None:
        """Return the slot to start a run in, or None if the run has to wait.

        The schedule calls this for one run after the other, in order of rank. If it returns None
        for a run, the schedule does not ask for a slot for later runs.
        """
        return free[0] if free else None

    def ended(self, timeout: float) -> Sequence[Any]:
        """Return the handles of ended jobs. Wait up to `timeout` seconds for the first one."""

    def begun(self, job: Any) -> bool:
        """Return False while a job waits in a queue. The schedule does not poll such jobs."""
        return True

    def signal(self, job: Any, number: int) -> None:
        """Send the signal `number` to a job."""

    def start_log(self, job: Any) -> str:
        """Describe where a user can read the output of a job that ended during its start."""
        return f"{START_LOG} in the run's folder"

    def devices(self, slot: int) -> str:
        """Return the value of CUDA_VISIBLE_DEVICES in a slot's jobs, or "" if it is unknown."""
        return ""

    def exit_reason(self, job: Any) -> str:
        """Return why the run of an ended job must not start again, or "" if it may start again.

        An example of a reason is that the user cancelled the job with scancel.
        """
        return ""
