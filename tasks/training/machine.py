"""The setup of a job's device and libraries, and the facts about them that its attempt records."""

import contextlib
import ctypes
import functools
import importlib.metadata
import math
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from sweeper.store import registry
from sweeper.store.attempts import NO_GPUS, VISIBLE
from sweeper.store.code import loaded_code
from sweeper.store.errors import invalid_value
from tasks.config.sections import TrainerSection

LIBRARIES = ("torch", "pytorch-lightning", "numpy", "tokenizers", "transformers")
DRIVER = Path("/sys/module/nvidia/version")
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # parameters of mallopt, from malloc.h


def set_up(section: TrainerSection) -> str:
    """Set up this process for reproducible results; return the device, "cuda" or "cpu".

    Raises:
        UserError: the job should use a GPU, but torch finds none.
    """
    # Fix the number of threads, because the last bits of a sum depend on it.
    torch.set_num_threads(section.threads)
    found = kind_of(section.accelerator)

    visible = os.environ.get(VISIBLE, "")
    has_gpu = DRIVER.exists() and visible not in NO_GPUS
    wanted = section.accelerator == "gpu" or (has_gpu and section.accelerator == "auto")
    if wanted and found == "cpu":
        expected = f"a GPU that torch {torch.__version__} can use ({VISIBLE}={visible})"
        remedy = "install a PyTorch for the GPU's driver, or plan with trainer.accelerator=cpu"
        raise invalid_value(
            "trainer.accelerator", section.accelerator, expected, remedy
        )

    keep_memory()
    compute_repeatably(found)
    return found


def kind_of(accelerator: str) -> str:
    """Return the device, "cuda" or "cpu", for `accelerator` ("auto", "cpu" or "gpu")."""
    return "cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu"


def keep_memory() -> None:
    """Make glibc keep freed memory for later allocations.

    Every step allocates the same blocks again. By default, glibc returns large blocks to the system
    and requests new ones, which takes up to a quarter of the time of a small step.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, -1)


def compute_repeatably(kind: str) -> None:
    """Make results reproducible bit for bit. `kind` is "cuda" or "cpu".

    On a GPU, nondeterministic operations raise RuntimeError. On a CPU, they only cause a warning.
    """
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.backends.cudnn.benchmark = False
    # Turn off TF32, which NVIDIA's containers enable by an environment variable. It would round the
    # inputs of matrix products to 10 bits of mantissa, even with the precision "32-true".
    torch.set_float32_matmul_precision("highest")
    torch.use_deterministic_algorithms(True, warn_only=kind == "cpu")
    # Do not fill new tensors with NaN. Filling takes time, and only reveals reads of uninitialized
    # memory.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def waited_seconds() -> float:
    """Return for how many seconds this process was ready to run but waited for a processor.

    Linux counts this time for each thread, and this function returns the largest time of a thread.
    On other systems, it returns nan.
    """
    files = Path("/proc/self/task").glob("*/schedstat")
    waits_ns = [int(text.split()[1]) for file in files if (text := _text(file))]
    return max(waits_ns) / 1e9 if waits_ns else math.nan


def used(kind: str, count: int) -> dict[str, Any]:
    """Return the devices that the job has used, such as {"device": "2 x NVIDIA H200"}.

    For GPUs, add `max_memory_allocated`: the peak memory of tensors on this rank's GPU, in bytes.

    Args:
        kind: "cuda" or "cpu".
        count: the number of devices.
    """
    name, memory = cpu_name(), {}
    if kind == "cuda":
        name = torch.cuda.get_device_name()
        memory = {"max_memory_allocated": torch.cuda.max_memory_allocated()}
    return {"device": name if count == 1 else f"{count} x {name}", **memory}


def facts(kind: str) -> dict[str, Any]:
    """Return facts about this job on which a result's last bits may depend.

    The keys are `hardware`, `versions` (of libraries) and `code` (the commit).

    With `kind="cuda"`, this function initializes CUDA, so the process must not fork afterwards.
    """
    hardware = {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }

    known = {"python": platform.python_version(), **versions()}
    if kind == "cuda":
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        hardware |= {
            "gpu": properties.name,
            "uuid": str(properties.uuid),
            "driver": _text(DRIVER).strip() or None,
        }
        known |= {
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),
        }
    return {"hardware": hardware, "versions": known, "code": loaded_code().revision}


def code_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of attempt.json about the code of a run (see `Code.recorded`)."""
    return loaded_code().recorded(registry.named_by(config))


@functools.cache
def cpu_name() -> str:
    """Return the processor's model name on Linux, and its architecture on other systems."""
    lines = _text(Path("/proc/cpuinfo")).splitlines()
    named = (line for line in lines if line.startswith("model name"))
    return next((line.split(":", 1)[1].strip() for line in named), platform.machine())


def _text(path: Path) -> str:
    """Return the content of a file of Linux such as /proc/cpuinfo, or "" if it is unreadable."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


@functools.cache
def versions() -> dict[str, str]:
    """Return the installed versions of LIBRARIES. Leave out those that are not installed."""
    found = {}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
