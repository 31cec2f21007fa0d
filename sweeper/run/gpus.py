"""The GPUs that runs on this machine may take, as nvidia-smi tells of them.

No CUDA library is loaded: a process that holds one cannot fork others that use it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from typing import NamedTuple

VARIABLE = "CUDA_VISIBLE_DEVICES"
FRACTION = "HEADROOM_GPU_FRACTION"
"""What part of its GPU's memory a job may take; `tasks.training.machine` heeds it."""
_GPU = re.compile(r"GPU \d+: .*\(UUID: (GPU-[^)]+)\)")
_UNTOLD = (None, None, False)
_PART = re.compile(r"\s+MIG \S*?(\d+)gb.*\(UUID: (MIG-[^)]+)\)")


class Gpu(NamedTuple):
    """A GPU, or with MIG a part of one.

    Attributes:
        id: what CUDA_VISIBLE_DEVICES takes. Numbers mean others to CUDA than to nvidia-smi, which
            counts in the order of slots; so it is a UUID unless someone has given a number.
        memory_gb: None where it is not told.
        free_gb: what of it nobody else had taken when it was asked.
        takes_one: whether it was set to take no second process beside one.
    """

    id: str
    memory_gb: float | None
    free_gb: float | None
    takes_one: bool = False

    @property
    def is_part(self) -> bool:
        """Whether other processes cannot be given the parts beside it."""
        return self.id.startswith("MIG")


def visible_gpus() -> list[Gpu]:
    """Return those that CUDA_VISIBLE_DEVICES names, or all; none where nothing tells of any."""
    present, chosen = _present(), os.environ.get(VARIABLE)
    if chosen is None:
        return present
    ids = [id.strip() for id in chosen.split(",") if id.strip() not in ("", "-1")]
    return [_named(id, present) for id in ids]


def _named(id: str, present: list[Gpu]) -> Gpu:
    """The GPU whose UUID begins so; of a number only that it has what the smallest has."""
    for gpu in present:
        if gpu.id.startswith(id):
            return gpu
    sizes = (_least(gpu.memory_gb for gpu in present), _least(gpu.free_gb for gpu in present))
    return Gpu(id, *sizes, any(gpu.takes_one for gpu in present))


def _least(sizes: Iterable[float | None]) -> float | None:
    """The smallest, if all are known."""
    known = list(sizes)
    found = [size for size in known if size is not None]
    return min(found) if found and len(found) == len(known) else None


def _present() -> list[Gpu]:
    fields = "--query-gpu=uuid,memory.total,memory.free,compute_mode"
    rows = [row.split(", ") for row in _nvidia_smi(fields, "--format=csv,noheader,nounits")]
    told = {
        row[0]: (_gigabytes(row[1]), _gigabytes(row[2]), row[3].startswith("Exclusive"))
        for row in rows
        if len(row) == 4
    }
    found: list[Gpu] = []
    whole = ""
    for line in _nvidia_smi("-L"):
        if match := _GPU.match(line):
            whole = match[1]
            found.append(Gpu(whole, *told.get(whole, _UNTOLD)))
        elif match := _PART.match(line):
            # Named with one of its parts, a GPU is that part; the others would lie idle.
            found = [gpu for gpu in found if gpu.id != whole]
            size, takes_one = float(match[1]), told.get(whole, _UNTOLD)[2]
            found.append(Gpu(match[2], size, size, takes_one))
    return found


def _gigabytes(mebibytes: str) -> float | None:
    """Memory that is shared with the processor, or hidden by a virtual GPU, is told as [N/A]."""
    return int(mebibytes) * 2**20 / 1e9 if mebibytes.isdecimal() else None


def _nvidia_smi(*arguments: str) -> list[str]:
    if not shutil.which("nvidia-smi"):
        return []
    command = ["nvidia-smi", *arguments]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return told.stdout.splitlines()
