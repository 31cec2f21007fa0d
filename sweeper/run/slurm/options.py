"""The options of conf/hydra/launcher/slurm.yaml, and what sbatch is asked by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from sweeper.run.backend import LINES, WORD, LimitedOptions, Resources, at_least


@dataclass
class Options(LimitedOptions):
    """The options of conf/hydra/launcher/slurm.yaml."""

    partition: Annotated[str | None, WORD]
    account: Annotated[str | None, WORD]
    qos: Annotated[str | None, WORD]
    constraint: Annotated[str | None, WORD]
    reservation: Annotated[str | None, WORD]
    nodelist: Annotated[str | None, WORD]
    exclude: Annotated[str | None, WORD]
    gres: Annotated[str | None, WORD]
    mail_type: Annotated[str | None, WORD]
    mail_user: Annotated[str | None, WORD]
    timeout_min: Annotated[int | None, at_least(1)]
    mem_gb: Annotated[float | None, at_least(0.1)]
    cpus_per_device: Annotated[int | None, at_least(1)]
    gpus_per_device: Annotated[int, at_least(0)]
    setup: Annotated[list[str], LINES]
    jobs: Annotated[int, at_least(1)]
    job_min: Annotated[float, at_least(0)]
    array_parallelism: Annotated[int | None, at_least(1)]
    signal_delay_s: Annotated[int | None, at_least(1)]
    max_num_timeout: Annotated[int, at_least(0)]
    poll_s: Annotated[float, at_least(0.1)]
    leave: bool

    def sbatch(self) -> dict[str, Any]:
        """What sbatch knows for every job, by submitit's names."""
        same = "partition account qos constraint nodelist exclude mail_type mail_user".split()
        same += ["signal_delay_s", "array_parallelism", "setup"]
        asked = {"time": self.timeout_min, **{key: getattr(self, key) for key in same}}
        return {key: value for key, value in asked.items() if value is not None}

    def further(self) -> dict[str, Any]:
        """What sbatch knows and submitit has no name for."""
        return {} if self.reservation is None else {"reservation": self.reservation}

    def gpus(self, needed: Resources) -> int:
        """How many GPUs a run takes on each node."""
        return 0 if needed.accelerator == "cpu" else self.gpus_per_device * needed.devices

    def request(self, needed: Resources) -> dict[str, Any]:
        """Return what sbatch is asked for a run. One task per node starts a process per device."""
        gpus = self.gpus(needed)
        asked = {"gres": self.gres} if self.gres else {"gpus_per_node": gpus}
        memory = {"mem": f"{round(self.mem_gb * 1024)}MB"} if self.mem_gb else {}
        cores = (self.cpus_per_device or needed.threads) * needed.devices
        return {
            "nodes": needed.nodes,
            "ntasks_per_node": 1,
            "cpus_per_task": cores,
            **memory,
            **(asked if gpus else {}),
        }

    @property
    def longest_s(self) -> float:
        """Seconds of runs that share a job, at most; it has to be done with them in its time."""
        within = self.job_min if self.timeout_min is None else min(self.job_min, self.timeout_min)
        return within * 60
