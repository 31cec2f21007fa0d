"""The backend that trains runs on this machine. The size server forks a process for each run."""

from __future__ import annotations

import math
import os
import queue
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from sweeper.run.backend import Backend, BackendContext, Job
from sweeper.run.options import LimitedOptions, at_least
from sweeper.store.attempts import NO_GPUS, START_LOG, VISIBLE
from sweeper.store.cores import cores
from sweeper.store.errors import invalid_value

_TIMEOUT_S = 20.0  # nvidia-smi may hang if the driver is broken
_UUID = re.compile(r"\(UUID: ((GPU|MIG)-[^)]+)\)")


@dataclass
class Options(LimitedOptions):
    """The options of conf/hydra/launcher/local.yaml."""

    jobs_per_device: Annotated[int, at_least(1, at_most=1000)] = 1
    stagger_s: Annotated[float, at_least(0)] = 5
    slots: Annotated[int | None, at_least(1, at_most=1000)] = None


def backend(context: BackendContext) -> LocalBackend:
    """Return a backend whose slots share this machine's GPUs, or its cores if it has no GPU.

    Raise UserError if the machine has too few GPUs for a run or for `hydra.launcher.slots`.
    """
    options: Options = context.options
    for needed in context.resources:
        needed.refuse_nodes("local")
    devices = max(needed.devices for needed in context.resources)
    only_cpu = {one.accelerator for one in context.resources} == {"cpu"}
    gpus = [] if only_cpu else visible_gpus()
    if gpus:
        slots = _gpu_slots(gpus, devices, options)
    else:
        threads = max(needed.threads for needed in context.resources)
        slots = [""] * (options.slots or max(1, cores() // (threads * devices)))
    return LocalBackend(context, slots)


def _gpu_slots(gpus: list[str], devices: int, options: Options) -> list[str]:
    """Return the value of CUDA_VISIBLE_DEVICES for each slot. A run uses `devices` GPUs."""
    if devices > 1:
        # A process can use only one MIG instance.
        gpus = [gpu for gpu in gpus if not gpu.startswith("MIG")]
    if len(gpus) < devices:
        whole = max(len(gpus), 1)
        expected = f"at most {whole} on this machine (MIG instances do not count)"
        remedy = f"set trainer.devices={whole}"
        raise invalid_value("trainer.devices", devices, expected, remedy)
    firsts = range(0, len(gpus) - devices + 1, devices)
    groups = [",".join(gpus[first : first + devices]) for first in firsts]
    # Runs use the first `options.slots` slots. Repeat the whole list of groups, and not each group,
    # so that the first slots are on different GPUs.
    slots = groups * options.jobs_per_device
    if options.slots and options.slots > len(slots):
        expected = (
            f"at most {len(slots)}, the number of runs that the GPUs have room for"
        )
        remedy = "set fewer slots, or increase hydra.launcher.jobs_per_device"
        raise invalid_value("hydra.launcher.slots", options.slots, expected, remedy)
    return slots[: options.slots]


@dataclass
class LocalBackend(Backend):
    """A backend that forks each job from the size server, with the GPUs of its slot.

    Attributes:
        context: the arguments of the function `backend`.
        gpus: the value of CUDA_VISIBLE_DEVICES for each slot. Slots may share a GPU.
    """

    context: BackendContext
    gpus: Sequence[str]
    # Maps a value of CUDA_VISIBLE_DEVICES to the time of the last start with this value.
    _started: dict[str, float] = field(default_factory=dict)
    _warmed: bool = False

    def __post_init__(self) -> None:
        self.process = self.context.process
        self.slots = len(self.gpus)
        self.device = "gpu" if self.gpus[0] else "cpu"

    def grant(self, job: Job, free: Sequence[int]) -> int | None:
        """Return the free slot whose GPU has the fewest runs.

        Starts on the same GPU are at least `stagger_s` seconds apart, because a run needs more
        memory while it starts. Return None if it is too early for every free slot.
        """
        taken = [gpu for slot, gpu in enumerate(self.gpus) if slot not in free]
        latest = time.monotonic() - self.context.options.stagger_s
        ready = [
            slot
            for slot in free
            if not self.gpus[slot]
            or self._started.get(self.gpus[slot], -math.inf) <= latest
        ]
        return min(ready, key=lambda slot: taken.count(self.gpus[slot]), default=None)

    def warm(self) -> None:
        """Import the modules of jobs in the size server, so that forked jobs start fast.

        Raise UserError if a run needs a GPU and the machine has none.
        """
        asked = any(needed.accelerator == "gpu" for needed in self.context.resources)
        if asked and self.device == "cpu":
            expected = "a GPU on this machine, but nvidia-smi lists none"
            remedy = "use a machine with a GPU, or plan with trainer.accelerator=cpu"
            raise invalid_value("trainer.accelerator", "gpu", expected, remedy)
        if not self._warmed:
            self.process.tell({"op": "preload", "logger": self.context.logger})
            self._warmed = True

    def start(self, run: Path, slot: int) -> int:
        gpus = self.gpus[slot]
        self._started[gpus] = time.monotonic()
        self.warm()
        # An empty value hides all GPUs. Without the variable, the run would use the first GPU.
        return self.process.fork(
            "train", run, environment={VISIBLE: gpus}, log=run / START_LOG
        )

    def ended(self, timeout: float) -> list[int]:
        handles = []
        try:
            handles.append(self.process.exits.get(timeout=timeout)[0])
            while True:
                handles.append(self.process.exits.get_nowait()[0])
        except queue.Empty:
            return handles

    def devices(self, slot: int) -> str:
        return self.gpus[slot]

    def signal(self, job: int, number: int) -> None:
        self.process.signal(job, number)


def visible_gpus() -> list[str]:
    """Return the GPUs that runs may use, each as an entry for CUDA_VISIBLE_DEVICES.

    If the variable is set, these are its entries, with abbreviated UUIDs completed. Otherwise, they
    are the UUIDs of all GPUs, with MIG instances instead of their GPU. UUIDs are used because CUDA
    and nvidia-smi number GPUs differently.

    Ask nvidia-smi and not CUDA: after a process has initialized CUDA, its forked processes cannot
    use it.
    """
    command = ["nvidia-smi", "-L"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        answer = ""
    listed: list[str] = []
    whole = ""
    for uuid, kind in _UUID.findall(answer):
        if kind == "GPU":
            whole = uuid
        elif whole in listed:
            # List the MIG instances instead of the whole GPU. With the UUID of the GPU, CUDA
            # would use only the first instance.
            listed.remove(whole)
        listed.append(uuid)

    chosen = os.environ.get(VISIBLE)
    if chosen is None:
        return listed
    names = [name.strip() for name in chosen.split(",") if name.strip() not in NO_GPUS]
    found = [
        next((gpu for gpu in listed if gpu.startswith(name)), name) for name in names
    ]
    return [*dict.fromkeys(found)]
