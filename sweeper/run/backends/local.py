"""Runs on this machine: fresh processes forked from one warm server, a slot each."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeper.model_process import ModelProcess


class LocalBackend:
    """Slots on this machine's GPUs, or on its cores where it has none."""

    def __init__(self, process: ModelProcess, environments: Sequence[Mapping[str, str]]) -> None:
        """
        Args:
            process: forks the jobs.
            environments: one per slot, what a job in that slot gets in its environment.
        """
        self._process = process
        self._environments = environments

    @property
    def slots(self) -> int:
        """How many runs execute at a time."""
        return len(self._environments)

    def warm(self, logger: str) -> None:
        """Import what jobs with this logger need, once, so that each starts in a moment."""
        self._process.ask([{"op": "warm", "logger": logger}])

    def start(self, run: Path, slot: int) -> int:
        """Start the job of a frozen record; a handle for it."""
        job, _ = self._process.fork(
            "train", run, environment=self._environments[slot], log=run / "start.log"
        )
        return job

    def prepare(self, run: Path, log: Path) -> int:
        """Build the data a run needs; the exit code of the process that did."""
        job, _ = self._process.fork("prepare", run, environment={}, log=log)
        while True:
            ended, code = self._process.exits.get()
            if ended == job:
                return code

    def ended(self, timeout: float) -> list[int]:
        """Handles of jobs whose process has ended; waits up to `timeout` seconds for the first."""
        handles = []
        try:
            handles.append(self._process.exits.get(timeout=timeout)[0])
            while True:
                handles.append(self._process.exits.get_nowait()[0])
        except queue.Empty:
            return handles

    def signal(self, job: int, number: int) -> None:
        """Send a signal to a job."""
        self._process.signal(job, number)


def slots(launcher: Mapping[str, Any], *, accelerator: str, threads: int) -> list[dict[str, str]]:
    """The environment of each slot, from the launcher's options and what this machine has."""
    wanted = launcher.get("slots")
    devices = [] if accelerator == "cpu" else visible_gpus()
    if devices:
        shared = int(launcher.get("jobs_per_device") or 1)
        every = [{"CUDA_VISIBLE_DEVICES": gpu} for _ in range(shared) for gpu in devices]
        return every[: int(wanted)] if wanted else every
    cores = len(os.sched_getaffinity(0))
    return [{} for _ in range(int(wanted) if wanted else max(1, cores // threads))]


def visible_gpus() -> list[str]:
    """Ids of the GPUs this process may use, without loading a CUDA library."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [gpu for gpu in chosen.split(",") if gpu.strip() not in ("", "-1")]
    if not shutil.which("nvidia-smi"):
        return []
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return [str(i) for i, line in enumerate(listed.stdout.splitlines()) if line.startswith("GPU ")]
