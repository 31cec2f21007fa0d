"""Runs on this machine: fresh processes forked from one warm server, a slot each."""

from __future__ import annotations

import os
import queue
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sweeper.run.backend import Backend, BackendContext, Job, LimitedOptions, Resources, at_least
from sweeper.run.gpus import Gpu, visible_gpus
from sweeper.run.placing import Places, shareable
from sweeper.size_server import SizeServer
from sweeper.store.attempts import START_LOG
from sweeper.store.errors import invalid_value


@dataclass
class Options(LimitedOptions):
    """The options of conf/hydra/launcher/local.yaml."""

    jobs_per_device: Annotated[int | None, at_least(1)]
    gpu_memory_gb: Annotated[float | None, at_least(0.1)]
    stagger_s: Annotated[float, at_least(0)]
    slots: Annotated[int | None, at_least(1)]


def backend(context: BackendContext) -> LocalBackend:
    """Slots on this machine's GPUs, or on its cores where it has none.

    Raises:
        UserError: an option that cannot be, or more devices a run or more slots than there are.
    """
    options: Options = context.options
    wanted = options.slots
    for needed in context.resources:
        needed.refuse_nodes("local")
    most = Resources(
        accelerator="cpu" if all(d.accelerator == "cpu" for d in context.resources) else "auto",
        devices=max(needed.devices for needed in context.resources),
        nodes=1,
        threads=max(needed.threads for needed in context.resources),
    )
    gpus = [] if most.accelerator == "cpu" else visible_gpus()
    shared = _shared(gpus, most, options, context.together)
    together = context.together if shared else 1
    at_once = max(1, cores() // (most.threads * most.devices))
    slots = _on_gpus(gpus, most, options, together) or [""] * at_once
    if wanted and slots[0] and wanted > len(slots):
        expected = f"at most {len(slots)}, as many runs as the GPUs here hold at a time"
        remedy = "have each hold more, as in hydra.launcher.jobs_per_device=2"
        raise invalid_value("hydra.launcher.slots", wanted, expected, remedy)
    if wanted:
        slots = slots[:wanted] if slots[0] else [""] * wanted
    places = Places(slots, shared, options.stagger_s)
    return LocalBackend(context.process, places, context.logger)


class LocalBackend(Backend):
    """Forks each job from the warm server, to the GPUs of its slot, or to none."""

    def __init__(self, process: SizeServer, places: Places, logger: str) -> None:
        self._process = process
        self._places = places
        self._logger = logger
        self._warmed = False

    @property
    def slots(self) -> int:
        return len(self._places.gpus)

    @property
    def device(self) -> str:
        return "gpu" if self._places.gpus[0] else "cpu"

    @property
    def places(self) -> bool:
        return bool(self._places.shared)

    @property
    def sharing(self) -> int:
        gpus = self._places.gpus
        return gpus.count(gpus[0]) if gpus[0] else 1

    def grant(self, job: Job, free: Sequence[int]) -> int | None:
        return self._places.grant(job.share, free)

    def warm(self) -> None:
        """What jobs import is imported once, by the server, so that each starts in a moment."""
        if not self._warmed:
            self._process.tell({"op": "preload", "logger": self._logger})
            self._warmed = True

    def start(self, run: Path, slot: int, after: int | None = None) -> int:
        given = self._places.start(slot)
        self.warm()
        return self._process.fork("train", run, environment=given, log=run / START_LOG)

    def ended(self, timeout: float) -> list[int]:
        handles = []
        try:
            handles.append(self._process.exits.get(timeout=timeout)[0])
            while True:
                handles.append(self._process.exits.get_nowait()[0])
        except queue.Empty:
            return handles

    def signal(self, job: int, number: int) -> None:
        self._process.signal(job, number)


def _shared(
    gpus: Sequence[Gpu], needed: Resources, options: Options, together: int
) -> dict[str, Gpu]:
    """The GPUs that runs share by predicted memory: where no one has said how, and all is known."""
    said = options.jobs_per_device or options.gpu_memory_gb
    return {} if said or needed.devices > 1 or together < 2 else shareable(gpus)


def _on_gpus(gpus: Sequence[Gpu], needed: Resources, options: Options, together: int) -> list[str]:
    """A slot for every `devices` GPUs, `together` or as many as asked for; none without a GPU."""
    if not gpus:
        return []
    shared, memory = options.jobs_per_device, options.gpu_memory_gb
    if needed.devices > 1:  # a process can use one part of a GPU and no more
        gpus = [gpu for gpu in gpus if not gpu.is_part]
    if len(gpus) < needed.devices:
        most = max(len(gpus), 1)
        expected = f"at most {most}, as many whole GPUs as this machine shows"
        raise invalid_value(
            "trainer.devices", needed.devices, expected, f"give it as trainer.devices={most}"
        )
    fitting = _fitting(gpus, memory, shared) if memory else shared or together
    whole = range(0, len(gpus) - needed.devices + 1, needed.devices)
    groups = [gpus[first : first + needed.devices] for first in whole]
    return [",".join(gpu.id for gpu in group) for _ in range(fitting) for group in groups]


def _fitting(gpus: Sequence[Gpu], memory: float, shared: int | None) -> int:
    """How many runs that take so many GB fit on the smallest GPU, at most `shared`."""
    key, sizes = "hydra.launcher.gpu_memory_gb", [gpu.memory_gb for gpu in gpus if gpu.memory_gb]
    if len(sizes) < len(gpus):
        expected = "null, since nvidia-smi does not tell the memory of each GPU here"
        raise invalid_value(
            key, f"{memory:g}", expected, "give hydra.launcher.jobs_per_device=2 instead"
        )
    smallest = min(sizes)
    if memory > smallest:
        expected = f"at most {smallest:.0f}, what the smallest GPU here has"
        raise invalid_value(key, f"{memory:g}", expected, "leave it out")
    return min(int(smallest // memory), shared or sys.maxsize)


def cores() -> int:
    """How many cores this process may use: all there are, where the system sets no limit."""
    affinity = getattr(os, "sched_getaffinity", None)  # macOS has none
    return len(affinity(0)) if affinity else os.cpu_count() or 1
