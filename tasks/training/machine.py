"""Where a job runs and with what: the device it takes, and the facts an attempt records."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib.metadata
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from sweeper.store import registry
from sweeper.store.code import loaded_code
from sweeper.store.errors import invalid_value
from tasks.config.sections import TrainerSection

LIBRARIES = ("torch", "pytorch-lightning", "numpy", "tokenizers")
DRIVER = Path("/sys/module/nvidia/version")
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # malloc.h


def set_up(section: TrainerSection) -> str:
    """Have this process compute as a job does; returns on what, "cuda" or "cpu".

    That fixes the number of CPU threads, which the last bits depend on. UserError without the GPU
    that was asked for.
    """
    torch.set_num_threads(section.threads)
    found = kind_of(section.accelerator)
    if section.accelerator == "gpu" and found == "cpu":
        remedy = "give it as trainer.accelerator=auto"
        raise invalid_value("trainer.accelerator", "gpu", "a CUDA GPU on this machine", remedy)
    keep_memory()
    compute_repeatably(found)
    return found


def kind_of(accelerator: str) -> str:
    """Return "cuda" or "cpu": what a run takes here that asks for "auto", "cpu" or "gpu"."""
    return "cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu"


def keep_memory() -> None:
    """Have this process keep the memory it frees, since every step asks for the same blocks again.

    glibc gives large blocks back to the system, which clears each page of the next ones when it is
    first touched: up to a quarter of a small step. Other C libraries are left as they are.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, -1)


def compute_repeatably(kind: str) -> None:
    """Have equal steps give equal bits.

    On a GPU what cannot is an error: merely warned of, fused attention would be differentiated in
    whatever order its blocks end.
    """
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=kind == "cpu")
    # Meant to make reads of unwritten memory repeatable; none happen.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def used(kind: str, count: int) -> dict[str, Any]:
    """Return what a table calls the device, or several; the bytes that tensors took of a GPU."""
    name = torch.cuda.get_device_name() if kind == "cuda" else cpu_name()
    peak = {"max_memory_allocated": torch.cuda.max_memory_allocated()} if kind == "cuda" else {}
    return {"device": name if count == 1 else f"{count} x {name}", **peak}


def facts(kind: str = "cpu") -> dict[str, Any]:
    """Return hardware, versions and the state of the code: what the last bits may depend on.

    With kind "cuda" CUDA is in use from then on: not for a process that is to be forked.
    """
    hardware = {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
    known = {"python": platform.python_version(), **versions()}
    if kind == "cuda":
        hardware |= {"gpu": torch.cuda.get_device_name(), "driver": _text(DRIVER).strip() or None}
        known |= {"cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
    return {"hardware": hardware, "versions": known, "code": loaded_code().revision}


def code_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of the code a run's result depends on, and what its config names from outside."""
    named = registry.named_by(config)
    found = [made for kind, name in named if (made := registry.made_of(kind, name))]
    parts = loaded_code().parts(config["task"]["name"], found)
    return {"code_parts": parts, **({"packages": found} if found else {})}


@functools.cache
def cpu_name() -> str:
    """Return the processor's model name where Linux tells it."""
    names = [
        line.split(":", 1)[1].strip() for line in _cpu_lines() if line.startswith("model name")
    ]
    return names[0] if names else platform.machine()


@functools.cache
def instructions() -> str:
    """Return a name for what this processor can execute: equal names, equal machine code."""
    told = [line for line in _cpu_lines() if line.startswith(("flags", "Features"))][:1]
    return hashlib.sha256(f"{cpu_name()} {told}".encode()).hexdigest()[:12]


def _cpu_lines() -> list[str]:
    return _text(Path("/proc/cpuinfo")).splitlines()


def _text(path: Path) -> str:
    """Return what Linux says there; nothing where it does not."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of the libraries that compute; a job may do without one of them."""
    found = {}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
