"""Where a job runs and with what: the device it takes, and the facts an attempt records."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from sweeper.store import registry
from sweeper.store.errors import wrong
from sweeper.store.registry import ROOT
from tasks.config.sections import TrainerSection

DISTRIBUTION = "headroom-attention"
LIBRARIES = ("torch", "pytorch-lightning", "numpy", "tokenizers")
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # malloc.h


def accelerator(section: TrainerSection) -> str:
    """Return "cuda" or "cpu" and fix the number of CPU threads, which the last bits depend on."""
    torch.set_num_threads(section.threads)
    present = torch.cuda.is_available()
    if section.accelerator == "gpu" and not present:
        remedy = "give it as trainer.accelerator=auto"
        raise wrong("trainer.accelerator", "gpu", "a CUDA GPU on this machine", remedy)
    return "cuda" if present and section.accelerator != "cpu" else "cpu"


def keep_memory() -> None:
    """Have this process keep the memory it frees, since every step asks for the same blocks again.

    glibc gives large blocks back to the system, which clears each page of the next ones when it is
    first touched: up to a quarter of a small step. Other C libraries are left as they are.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, -1)


def compute_repeatably() -> None:
    """Have equal steps give equal bits, on a GPU too; a warning says where that cannot be."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Meant to make reads of unwritten memory repeatable; none happen.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def device_name(kind: str, count: int = 1) -> str:
    """Return what a table calls the device, or several of it."""
    name = torch.cuda.get_device_name() if kind == "cuda" else cpu_name()
    return name if count == 1 else f"{count} x {name}"


def peak_memory(kind: str) -> dict[str, int]:
    """Return the bytes of GPU memory that tensors took at most; nothing on a CPU."""
    return {"max_memory_allocated": torch.cuda.max_memory_allocated()} if kind == "cuda" else {}


def facts() -> dict[str, Any]:
    """Return hardware, versions and the state of the code: what the last bits may depend on."""
    return {
        "hardware": {
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "instructions": torch.backends.cpu.get_cpu_capability(),
        },
        "versions": {"python": platform.python_version(), **versions()},
        "code": code(),
    }


def packages(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run's config names from outside this program; nothing if it is all our own."""
    named = registry.named_by(config)
    found = [made for kind, name in named if (made := registry.made_of(kind, name))]
    return {"packages": found} if found else {}


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
    try:
        return Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of the libraries that compute; a job may do without one of them."""
    found = {}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


@functools.cache
def code() -> str:
    """Return the commit of this code, "-dirty" where it was changed; its version if installed.

    Where it was carried to without its history, a file says what it would be.
    """
    with contextlib.suppress(OSError):
        return (ROOT / "REVISION").read_text("utf-8").strip()
    if not (ROOT / ".git").exists():  # around an installed program a repository is another's
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return f"{DISTRIBUTION} {importlib.metadata.version(DISTRIBUTION)}"
        return "unknown"
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
