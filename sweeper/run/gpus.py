"""The GPUs that runs on this machine may take, as nvidia-smi lists them.

No CUDA library is loaded: a process that holds one cannot fork others that use it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

VARIABLE = "CUDA_VISIBLE_DEVICES"
_GPU = re.compile(r"GPU \d+: .*\(UUID: (GPU-[^)]+)\)")
_MIG_PART = re.compile(r"\s+MIG .*\(UUID: (MIG-[^)]+)\)")


def visible_gpus() -> list[str]:
    """Return what CUDA_VISIBLE_DEVICES takes for each GPU that it names, or for all of them.

    CUDA and nvidia-smi number GPUs differently, so a GPU is named by its UUID unless the user has
    given a number. With MIG each part of a GPU stands for itself. Without nvidia-smi there is none.
    """
    listed, chosen = _listed(), os.environ.get(VARIABLE)
    if chosen is None:
        return listed
    names = [name.strip() for name in chosen.split(",") if name.strip() not in ("", "-1")]
    return [next((gpu for gpu in listed if gpu.startswith(name)), name) for name in names]


def is_mig_part(gpu: str) -> bool:
    """Return whether a GPU is a part of one: a process can use a single part."""
    return gpu.startswith("MIG")


def _listed() -> list[str]:
    if not shutil.which("nvidia-smi"):
        return []
    answer = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    found: list[str] = []
    whole = ""
    for line in answer.stdout.splitlines():
        if match := _GPU.match(line):
            whole = match[1]
            found.append(whole)
        elif match := _MIG_PART.match(line):
            # CUDA takes a GPU that has parts for its first part, so the GPU itself is left out.
            found = [gpu for gpu in found if gpu != whole]
            found.append(match[1])
    return found
