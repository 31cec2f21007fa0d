"""The backend that trains runs on a Ray cluster, or on a local Ray instance of this sweep.

For each run, Ray places an actor on a node. The actor starts `python -m tasks.train`. The schedule,
not Ray, restarts failed runs. Runs write their results to files, not to Ray objects.
"""

from __future__ import annotations

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

from sweeper.run.backend import Backend, BackendContext, Resources
from sweeper.run.options import LimitedOptions, Word, at_least
from sweeper.run.stop import STOPS
from sweeper.store.errors import UserError, invalid_value, sanitize, spelled


def backend(context: BackendContext) -> RayBackend:
    """Return a backend on the cluster at `hydra.launcher.address`, or on a new local instance.

    Raises:
        UserError: Ray is not installed, the cluster cannot be reached, an option is invalid, or no
            node has room for a run.
    """
    options: Options = context.options
    for needed in context.resources:
        needed.refuse_nodes("ray")
        options.request(needed, gpus=True)
    made = RayBackend(connected(options.address), context)
    # If `slots` is set, the cluster may scale automatically and have no room yet, so do not check.
    if not options.slots:
        for needed in context.resources:
            made.check_room(needed)
    return made


@dataclass
class Options(LimitedOptions):
    """The options of conf/hydra/launcher/ray.yaml."""

    address: Word
    cpus_per_device: Annotated[float | None, at_least(0)]
    gpus_per_device: Annotated[float, at_least(0)]
    slots: Annotated[int | None, at_least(1, at_most=100_000)]

    def request(self, needed: Resources, *, gpus: bool) -> dict[str, float]:
        """Return the resources that Ray reserves for a run.

        `gpus`: whether any node of the cluster has GPUs. Raise UserError for an amount that Ray
        cannot reserve, such as 1.5 GPUs.
        """
        uses = needed.accelerator == "gpu" or (needed.accelerator == "auto" and gpus)
        wanted = self.gpus_per_device * needed.devices if uses else 0
        if wanted > 1 and wanted % 1:
            key, value = "hydra.launcher.gpus_per_device", self.gpus_per_device
            expected = (
                f"a whole number, since Ray cannot reserve {wanted:g} GPUs for a run"
            )
            raise invalid_value(key, value, expected, "set it to 1")
        cpus = needed.threads if self.cpus_per_device is None else self.cpus_per_device
        return {"num_cpus": cpus * needed.devices, "num_gpus": wanted}


def _in_words(cpus: float, gpus: float) -> str:
    return f"{{CPU: {cpus:g}, GPU: {gpus:g}}}"


@dataclass(eq=False)
class RayJob:
    """The handle that `RayBackend.start` returns for a job.

    Attributes:
        actor: the `Place` actor that trains the run.
        placed: Ray's reference to a call of `Place.placed`, which returns when the actor is on a
            node. None after that.
    """

    actor: Any
    placed: Any


class RayBackend(Backend):
    """A backend that starts a Ray actor for each run."""

    def __init__(self, ray: ModuleType, context: BackendContext) -> None:
        self._ray = ray
        self._options: Options = context.options
        self._nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        self._has_gpus = any(node.get("GPU") for node in self._nodes)
        # The jobs that have not ended. The keys are Ray's references to the calls of `Place.work`.
        self._running: dict[Any, RayJob] = {}
        rooms = map(self._room, context.resources)
        self.slots = self._options.slots or max(1, min(rooms))
        requests = map(self._request, context.resources)
        self.device = "gpu" if any(one["num_gpus"] for one in requests) else "cpu"

    def _request(self, needed: Resources) -> dict[str, float]:
        return self._options.request(needed, gpus=self._has_gpus)

    def _room(self, needed: Resources) -> int:
        """Return how many runs that need these resources fit on the nodes at the same time."""
        asked = self._request(needed)
        amounts = {"CPU": asked["num_cpus"], "GPU": asked["num_gpus"]}
        room = 0
        for node in self._nodes:
            fits = [
                int(node.get(resource, 0) / amount)
                for resource, amount in amounts.items()
                if amount
            ]
            room += min(fits, default=1)
        return room

    def check_room(self, needed: Resources) -> None:
        """Raise UserError if no node has room for a run that needs these resources."""
        if self._room(needed):
            return
        wanted = _in_words(*self._request(needed).values())
        nodes = [
            _in_words(node.get("CPU", 0), node.get("GPU", 0)) for node in self._nodes
        ]
        expected = (
            f"a node with {wanted} for each run, but the nodes have {', '.join(nodes)}"
        )
        remedy = (
            "reduce trainer.devices or trainer.threads, or change trainer.accelerator"
        )
        raise invalid_value("hydra/launcher", "ray", expected, remedy)

    def start(self, run: Path, slot: int) -> RayJob:
        # Allow two concurrent calls, because `signal` has to execute while `work` waits.
        remote = self._ray.remote(max_concurrency=2, max_restarts=0, max_task_retries=0)
        request = self._request(Resources.of_record(run))
        place = remote(Place).options(**request)
        actor = place.remote(str(run.resolve()), str(self.code))
        job = RayJob(actor, actor.placed.remote())
        self._running[actor.work.remote()] = job
        return job

    def begun(self, job: RayJob) -> bool:
        if job.placed and self._ray.wait([job.placed], timeout=0)[0]:
            job.placed = None
        return job.placed is None

    def ended(self, timeout: float) -> list[RayJob]:
        if not self._running:
            time.sleep(timeout)
            return []
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=timeout)
        jobs = [self._running.pop(reference) for reference in ready]
        for job in jobs:
            self._ray.kill(job.actor)  # frees the node's resources
        return jobs

    def signal(self, job: RayJob, number: int) -> None:
        if self.begun(job):
            job.actor.signal.remote(int(number))
        else:
            # Ray has not placed the actor yet, so it cannot execute `signal`.
            self._ray.kill(job.actor)


class Place:
    """An actor that starts the process of one run and passes signals to it."""

    def __init__(self, run: str, root: str) -> None:
        self._command = [sys.executable, "-m", "tasks.train", run]
        self._root = root
        self._process: subprocess.Popen[bytes] | None = None
        self._asked_to_stop = False

    def placed(self) -> None:
        """Do nothing. This call returns once Ray has placed the actor on a node."""

    def work(self) -> int:
        """Train the run and return its exit code."""
        if self._asked_to_stop:
            return 1
        # The run does not use Ray and must not see Ray's token, so remove the environment variables
        # of Ray.
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("RAY_")
        }
        self._process = subprocess.Popen(
            self._command, cwd=self._root, env=own, start_new_session=True
        )
        if self._asked_to_stop:  # `signal` was called before the process existed
            self._process.terminate()
        return self._process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the run. After SIGTERM or SIGKILL, `work` does not start a run."""
        self._asked_to_stop |= number in (signal.SIGTERM, signal.SIGKILL)
        if self._process is None or self._process.poll() is not None:
            return
        if number == signal.SIGKILL:
            os.killpg(self._process.pid, number)  # also kills child processes
        else:
            self._process.send_signal(number)


def connected(address: str | None) -> ModuleType:
    """Connect to the cluster at `address` and return the module `ray`.

    If `address` is None, start a local instance that accepts only processes with its random token.
    """
    # Set the environment variables of Ray before its import, which reads them.
    kept = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys()
    if address is None or kept or Path("~/.ray/auth_token").expanduser().exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

    arguments: dict[str, Any] = {"address": address}
    if address is None:
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        arguments = {"address": "local", "_node_ip_address": "127.0.0.1"}
        arguments["include_dashboard"] = False

    handlers = {number: signal.getsignal(number) for number in STOPS}
    try:
        ray = import_module("ray")
        ray.init(**arguments, logging_level=logging.ERROR, log_to_driver=False)
    except ImportError:
        remedy = "run `pip install 'headroom-attention[ray]'`"
        raise invalid_value(
            "hydra/launcher", "ray", "ray to be installed", remedy
        ) from None
    except Exception as error:
        # If there is no cluster, Ray may raise an exception of any class.
        typed = sanitize(spelled(address))
        raise UserError(
            f"hydra.launcher.address={typed}: Ray cannot be started or reached "
            f"({sanitize(error, 160)}); set the key to the address of a running cluster."
        ) from error

    # ray.init replaces the sweep's signal handlers, so restore them.
    for number, handler in handlers.items():
        signal.signal(number, handler)
    return ray
