"""What a backend is made from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.model_process import ModelProcess
from sweeper.store.errors import wrong
from sweeper.store.runs import Run


@dataclass(frozen=True)
class Resources:
    """What one run takes, from the `trainer` section of its config."""

    accelerator: str
    devices: int  # on each node
    nodes: int
    threads: int  # of each device's process

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Resources:
        """What a run with this config takes."""
        trainer = config["trainer"]
        return cls(
            trainer["accelerator"], trainer["devices"], trainer["num_nodes"], trainer["threads"]
        )

    @classmethod
    def of_record(cls, run: Path) -> Resources:
        """What the frozen run in this directory takes."""
        return cls.of(Run.open(run).record()["config"])

    def refuse_nodes(self, name: str) -> None:
        """UserError if a run wants several machines of a backend that starts it on one."""
        if self.nodes != 1:
            expected = f"1, since hydra/launcher={name} starts a run on one machine"
            raise wrong("trainer.num_nodes", self.nodes, expected, "choose hydra/launcher=slurm")


def device_hours(config: Mapping[str, Any], seconds: float) -> float:
    """What a run with this config costs that trains so long."""
    needed = Resources.of(config)
    return seconds * needed.devices * needed.nodes / 3600


@dataclass(frozen=True)
class BackendContext:
    """Where and for whom a backend works.

    `options` are its module's `Options`, `resources` are those of the plan's runs, `process` is the
    warm process on this machine, and `together` is how many runs of the plan may share a GPU, where
    its memory is enough for them.
    """

    options: Any
    resources: Collection[Resources]
    logger: str
    outputs: Path
    process: ModelProcess
    together: int = 1
