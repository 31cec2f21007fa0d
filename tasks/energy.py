"""Joules that a device took while a run trained: of a GPU by NVML, of a CPU by RAPL.

It is what the whole device took, whatever else ran on it: runs that share one each say all of it.
Where neither can be read (most virtual machines, RAPL without permission) nothing is said.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

RAPL = Path("/sys/class/powercap")
_Read = Callable[[], float]


class Energy:
    """Measures from when it is made."""

    def __init__(self, kind: str) -> None:
        meters = _gpu() if kind == "cuda" else _packages()
        self._meters = [(read, wraps, read()) for read, wraps in meters]

    def joules(self) -> dict[str, float]:
        """Return what was taken since, as part of a result; nothing where nothing tells."""
        with suppress(OSError, ValueError):
            taken = [(read() - first, wraps) for read, wraps, first in self._meters]
            if taken:
                return {"energy_joules": sum(j if j >= 0 else j + wraps for j, wraps in taken)}
        return {}


def _packages() -> list[tuple[_Read, float]]:
    """The meters of the processors, and at what they begin anew; none if one cannot be read."""
    found: list[tuple[_Read, float]] = []
    with suppress(OSError, ValueError):
        for folder in sorted(RAPL.glob("intel-rapl:[0-9]*")):
            if folder.name.count(":") == 1:  # the others are parts of these
                meter, most = folder / "energy_uj", folder / "max_energy_range_uj"
                found.append((_micro(meter), _micro(most)()))
                found[-1][0]()
        return found
    return []


def _micro(path: Path) -> _Read:
    return lambda: int(path.read_text()) / 1e6


def _gpu() -> list[tuple[_Read, float]]:
    """The meter of the GPU in use, since its driver was loaded; none if NVML does not tell."""
    with suppress(OSError, AttributeError, ValueError):
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        handle, uuid = ctypes.c_void_p(), f"GPU-{torch.cuda.get_device_properties().uuid}"
        if nvml.nvmlInit_v2() == 0 and not nvml.nvmlDeviceGetHandleByUUID(
            uuid.encode(), ctypes.byref(handle)
        ):

            def read() -> float:
                millijoules = ctypes.c_ulonglong()
                if nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules)):
                    raise OSError("NVML does not tell the energy of this GPU")
                return millijoules.value / 1e3

            read()
            return [(read, 0.0)]
    return []
