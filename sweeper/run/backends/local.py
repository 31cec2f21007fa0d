"""Runs on this machine: fresh processes forked from one warm server, a slot each."""

from __future__ import annotations

import math
import os
import queue
import re
import shutil
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

_SILENT_S = 20.0  # nvidia-smi of a broken driver may never answer
_GPU = re.compile(r"GPU \d+: .*\(UUID: (GPU-[^)]+)\)")
_MIG_PART = re.compile(r"\s+MIG .*\(UUID: (MIG-[^)]+)\)")


@dataclass
class Options(LimitedOptions):
    """The options of conf/hydra/launcher/local.yaml."""

    jobs_per_device: Annotated[int, at_least(1, at_most=1000)] = 1
    stagger_s: Annotated[float, at_least(0)] = 5
    slots: Annotated[int | None, at_least(1, at_most=1000)] = None


def backend(context: BackendContext) -> LocalBackend:
    """Return a backend with slots on this machine's GPUs, or on its cores where it has none.

    Raise UserError for more devices a run or more slots than there are.
    """
    options: Options = context.options
    wanted = options.slots
    for needed in context.resources:
        needed.refuse_nodes("local")
    devices = max(needed.devices for needed in context.resources)
    threads = max(needed.threads for needed in context.resources)
    gpus = [] if {one.accelerator for one in context.resources} == {"cpu"} else visible_gpus()
    if gpus:
        if devices > 1:
            gpus = [gpu for gpu in gpus if not gpu.startswith("MIG")]  # a run uses a single part
        if len(gpus) < devices:
            whole = max(len(gpus), 1)
            expected = f"at most {whole}, as many whole GPUs as this machine shows"
            remedy = f"give it as trainer.devices={whole}"
            raise invalid_value("trainer.devices", devices, expected, remedy)
        firsts = range(0, len(gpus) - devices + 1, devices)
        groups = [",".join(gpus[first : first + devices]) for first in firsts]
        slots = groups * options.jobs_per_device  # the slots of a GPU do not follow each other
        if wanted and wanted > len(slots):
            expected = f"at most {len(slots)}, as many runs as the GPUs here hold at a time"
            remedy = "have each hold more, as in hydra.launcher.jobs_per_device=2"
            raise invalid_value("hydra.launcher.slots", wanted, expected, remedy)
        slots = slots[:wanted]
    else:
        slots = [""] * (wanted or max(1, cores() // (threads * devices)))
    return LocalBackend(context, slots)


@dataclass
class LocalBackend(Backend):
    """Forks each job from the warm server, to the GPUs of its slot, or to none."""

    context: BackendContext
    gpus: Sequence[str]  # of each slot; several slots may have the same
    _started: dict[str, float] = field(default_factory=dict)  # when the last run started, by GPUs
    _warmed: bool = False

    def __post_init__(self) -> None:
        self.process = self.context.process
        self.slots = len(self.gpus)
        self.device = "gpu" if self.gpus[0] else "cpu"

    def grant(self, job: Job, free: Sequence[int]) -> int | None:
        """Return the free slot whose GPU has the fewest runs.

        Runs on one GPU start some seconds apart, since a start takes more memory for a while.
        """
        taken = [gpu for slot, gpu in enumerate(self.gpus) if slot not in free]
        latest = time.monotonic() - self.context.options.stagger_s
        ready = [
            slot
            for slot in free
            if not self.gpus[slot] or self._started.get(self.gpus[slot], -math.inf) <= latest
        ]
        return min(ready, key=lambda slot: taken.count(self.gpus[slot]), default=None)

    def warm(self) -> None:
        """Have the server import what jobs need, once, so that each job starts at once.

        Raise UserError if runs ask for a GPU, as those of scale=gpu do, and there is none.
        """
        asked = any(needed.accelerator == "gpu" for needed in self.context.resources)
        if asked and self.device == "cpu":
            expected = "a GPU on this machine, but nvidia-smi shows none"
            remedy = "train where there is one, or plan with trainer.accelerator=cpu"
            remedy += " (the scales gpu and paper ask for a GPU)"
            raise invalid_value("trainer.accelerator", "gpu", expected, remedy)
        if not self._warmed:
            self.process.tell({"op": "preload", "logger": self.context.logger})
            self._warmed = True

    def start(self, run: Path, slot: int, after: int | None = None) -> int:
        gpus = self.gpus[slot]
        self._started[gpus] = time.monotonic()
        self.warm()
        # An empty list hides every GPU; without the variable the run would take the first one.
        return self.process.fork("train", run, environment={VISIBLE: gpus}, log=run / START_LOG)

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
    """Return the GPUs that CUDA_VISIBLE_DEVICES names, or all, each as that variable takes it.

    CUDA and nvidia-smi number GPUs differently, so a GPU is named by its UUID unless the user has
    given a number. With MIG each part of a GPU stands for itself. Without nvidia-smi there is none.
    CUDA is not asked: a process that has loaded it cannot fork others that use it.
    """
    listed: list[str] = []
    if shutil.which("nvidia-smi"):
        try:
            answer = subprocess.run(
                ["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=_SILENT_S
            ).stdout
        except subprocess.TimeoutExpired:
            answer = ""
        whole = ""
        for line in answer.splitlines():
            if match := _GPU.match(line):
                whole = match[1]
                listed.append(whole)
            elif match := _MIG_PART.match(line):
                # CUDA takes a GPU that has parts for its first part, so the GPU is left out.
                listed = [gpu for gpu in listed if gpu != whole] + [match[1]]
    chosen = os.environ.get(VISIBLE)
    if chosen is None:
        return listed
    names = [name.strip() for name in chosen.split(",") if name.strip() not in NO_GPUS]
    found = [next((gpu for gpu in listed if gpu.startswith(name)), name) for name in names]
    return [*dict.fromkeys(found)]
