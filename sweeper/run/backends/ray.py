"""Runs on a Ray cluster, or on a Ray of this machine that lives as long as the sweep.

Ray only places each run: it retries nothing, restarts nothing and moves no results. An actor per
run starts the command that executes a frozen record on any machine.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from sweeper.run.backend import WORD, Backend, BackendContext, LimitedOptions, Resources, at_least
from sweeper.store.errors import UserError, invalid_value, sanitize


def backend(context: BackendContext) -> RayBackend:
    """Return a backend on the cluster at `hydra.launcher.address`, or on a new one here.

    Raises:
        UserError: an option that cannot be, no ray, or no such cluster.
    """
    options: Options = context.options
    for needed in context.resources:
        needed.refuse_nodes("ray")
        options.request(needed)
    return RayBackend(connected(options.address), context)


@dataclass
class Options(LimitedOptions):
    """The options of conf/hydra/launcher/ray.yaml."""

    address: Annotated[str | None, WORD]
    cpus_per_device: Annotated[float | None, at_least(0)]
    gpus_per_device: Annotated[float, at_least(0)]
    slots: Annotated[int | None, at_least(1)]

    def request(self, needed: Resources) -> dict[str, float]:
        """Return what Ray is asked for a run; raise UserError if GPUs cannot be divided so."""
        gpus = 0 if needed.accelerator == "cpu" else self.gpus_per_device * needed.devices
        if gpus > 1 and gpus != int(gpus):
            expected = f"a whole number, since a run takes trainer.devices={needed.devices} of them"
            raise invalid_value(
                "hydra.launcher.gpus_per_device", self.gpus_per_device, expected, "say 1"
            )
        cpus = needed.threads if self.cpus_per_device is None else self.cpus_per_device
        return {"num_cpus": cpus * needed.devices, "num_gpus": gpus}


class RayBackend(Backend):
    """Starts an actor for each run."""

    def __init__(self, ray: ModuleType, context: BackendContext) -> None:
        self._ray = ray
        self._options: Options = context.options
        self._resources = context.resources
        self._actors: dict[int, Any] = {}
        self._running: dict[Any, int] = {}  # handles by the result of `work`
        self._numbers = itertools.count(1)

    @property
    def slots(self) -> int:
        if self._options.slots:
            return self._options.slots
        there = self._ray.cluster_resources()
        fitting = []
        for needed in self._resources:
            asked = self._options.request(needed)
            for name, amount in (("CPU", asked["num_cpus"]), ("GPU", asked["num_gpus"])):
                if amount:
                    fitting.append(int(there.get(name, 0) / amount))
        return max(1, min(fitting, default=1))

    @property
    def device(self) -> str:
        asked = [self._options.request(needed)["num_gpus"] for needed in self._resources]
        return "gpu" if any(asked) else "cpu"

    def start(self, run: Path, slot: int, after: int | None = None) -> int:
        number = next(self._numbers)
        # Two calls at a time: one waits for the run, the other may signal it.
        actor = self._ray.remote(max_concurrency=2, max_restarts=0, max_task_retries=0)(Place)
        request = self._options.request(Resources.of_record(run))
        self._actors[number] = actor.options(**request).remote(str(run.resolve()), str(self.code))
        self._running[self._actors[number].work.remote()] = number
        return number

    def ended(self, timeout: float) -> list[int]:
        if not self._running:
            time.sleep(timeout)
            return []
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=timeout)
        numbers = [self._running.pop(reference) for reference in ready]
        for number in numbers:
            self._ray.kill(self._actors.pop(number))  # gives its place back
        return numbers

    def signal(self, job: int, number: int) -> None:
        if job in self._actors:
            self._actors[job].signal.remote(int(number))


class Place:
    """An actor that executes the command of one run and passes signals to it."""

    def __init__(self, run: str, root: str) -> None:
        self._command = [sys.executable, "-m", "tasks.train", run]
        self._root = root
        self._process: subprocess.Popen[bytes] | None = None
        self._asked_to_stop = False

    def work(self) -> int:
        """Train the run and return its exit code."""
        if self._asked_to_stop:
            return 1
        # The run is not part of the cluster and must not have its token.
        own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        self._process = subprocess.Popen(
            self._command, cwd=self._root, env=own, start_new_session=True
        )
        return self._process.wait()

    def signal(self, number: int) -> None:
        """Signal the run; a run that is signalled before it begins does not begin."""
        self._asked_to_stop |= number in (signal.SIGTERM, signal.SIGKILL)
        if self._process is None or self._process.poll() is not None:
            return
        if number == signal.SIGKILL:
            os.killpg(self._process.pid, number)  # with what it has started itself
        else:
            self._process.send_signal(number)


def connected(address: str | None) -> ModuleType:
    """Return the connected module `ray`. A Ray that starts here obeys only who has its token."""
    # Ray reads these when it is imported.
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    arguments: dict[str, Any] = {"address": address}
    if address is None:
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        arguments = {"address": "local", "_node_ip_address": "127.0.0.1"}
        arguments["include_dashboard"] = False
    try:
        ray = import_module("ray")
        ray.init(**arguments, logging_level=logging.ERROR, log_to_driver=False)
    except ImportError:
        remedy = "pip install 'headroom-attention[ray]'"
        raise invalid_value("hydra/launcher", "ray", "ray to be installed", remedy) from None
    except Exception as error:  # Ray raises any kind of error if there is no cluster
        what = f"hydra.launcher.address={sanitize(address)}: no Ray cluster"
        raise UserError(f"{what} ({sanitize(error, 160)}).") from error
    return ray
