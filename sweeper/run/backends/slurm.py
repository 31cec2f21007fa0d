"""Runs as Slurm jobs, handed in through submitit: arrays of equal jobs, children after parents.

Everything is in the queue soon after the sweep began, and goes on without it. The same command
again takes over what is queued: outputs/slurm/<run>.json says which job a run was handed in as.
Slurm, not the sweep, starts a preempted job again; one that reaches its time limit saves and asks
for that itself (see slurm_job.py). The queue is asked; accounting, where there is one, only for
jobs that the queue has forgotten.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import secrets
import shutil
import signal
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from sweeper.run import slurm_queue
from sweeper.run.backend import Backend
from sweeper.run.context import BackendContext, Resources
from sweeper.run.limits import LINES, WORD, LimitedOptions, at_least
from sweeper.run.slurm_job import Work
from sweeper.store.errors import UserError, shown, wrong
from sweeper.store.files import make_directory, publish_json, read_object

# States after which Slurm does nothing more for a job (squeue, JOB STATE CODES).
OVER = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT "
    "REVOKED GONE".split()
)
# What a further start would not mend, whatever the run's record says.
FINAL = {"CANCELLED": "was cancelled", "OUT_OF_MEMORY": "was killed for its use of host memory"}


def backend(context: BackendContext) -> SlurmBackend:
    """The queue of the cluster that this machine can submit to.

    Raises:
        UserError: an option that cannot be, no Slurm, no submitit, or a folder others may write to.
    """
    try:
        import submitit  # noqa: F401
    except ImportError:
        remedy = "pip install 'headroom-attention[slurm]'"
        raise wrong("hydra/launcher", "slurm", "submitit to be installed", remedy) from None
    if not shutil.which("sbatch"):
        expected = "a machine from which Slurm jobs can be submitted, but there is no sbatch"
        raise wrong("hydra/launcher", "slurm", expected, "log in to one")
    if context.outputs.exists():
        _refuse_shared(context.outputs)  # asked again before each job is handed in
    return SlurmBackend(context)


@dataclass
class Options(LimitedOptions):
    """The options of conf/hydra/launcher/slurm.yaml."""

    partition: Annotated[str | None, WORD]
    account: Annotated[str | None, WORD]
    qos: Annotated[str | None, WORD]
    constraint: Annotated[str | None, WORD]
    timeout_min: Annotated[int | None, at_least(1)]
    mem_gb: Annotated[float | None, at_least(0.1)]
    cpus_per_device: Annotated[int | None, at_least(1)]
    gpus_per_device: Annotated[int, at_least(0)]
    setup: Annotated[list[str], LINES]
    jobs: Annotated[int, at_least(1)]
    array_parallelism: Annotated[int | None, at_least(1)]
    signal_delay_s: Annotated[int | None, at_least(1)]
    max_num_timeout: Annotated[int, at_least(0)]
    poll_s: Annotated[float, at_least(0.1)]

    def sbatch(self) -> dict[str, Any]:
        """What sbatch knows for every job, by submitit's names."""
        same = "partition account qos constraint signal_delay_s array_parallelism setup".split()
        asked = {
            "time": self.timeout_min,
            "mem": None if self.mem_gb is None else f"{round(self.mem_gb * 1024)}MB",
            **{key: getattr(self, key) for key in same},
        }
        return {key: value for key, value in asked.items() if value is not None}

    def request(self, needed: Resources) -> dict[str, Any]:
        """What sbatch is asked for a run: one task per node, which starts a process per device."""
        gpus = 0 if needed.accelerator == "cpu" else self.gpus_per_device * needed.devices
        return {
            "nodes": needed.nodes,
            "ntasks_per_node": 1,
            "cpus_per_task": (self.cpus_per_device or needed.threads) * needed.devices,
            **({"gpus_per_node": gpus} if gpus else {}),
        }


@dataclass
class _Job:
    run: Path
    needed: Resources
    after: int | None
    id: str = ""  # Slurm's, once it is handed in
    state: str = "PENDING"


class SlurmBackend(Backend):
    """Hands runs in, a whole batch at a time, and watches the queue."""

    queues = True

    def __init__(self, context: BackendContext) -> None:
        self._options: Options = context.options
        self._outputs = context.outputs.resolve()
        self._folder = self._outputs / "slurm"
        self._resources = context.resources
        self._jobs: dict[int, _Job] = {}
        self._told: set[int] = set()  # those whose end was reported
        self._numbers = itertools.count(1)
        self._next_look = 0.0

    @property
    def slots(self) -> int:
        return self._options.jobs

    @property
    def device(self) -> str:
        gpus = [self._options.request(needed).get("gpus_per_node") for needed in self._resources]
        return "gpu" if any(gpus) else "cpu"

    def start(self, run: Path, slot: int, after: int | None = None) -> int:
        """Take over the job that a run has in the queue, or keep the run for the next batch."""
        number = next(self._numbers)
        self._jobs[number] = _Job(run.resolve(), Resources.of_record(run), after, self._queued(run))
        return number

    def ended(self, timeout: float) -> list[int]:
        self._hand_in()
        time.sleep(timeout)
        if time.monotonic() < self._next_look:
            return []
        self._next_look = time.monotonic() + self._options.poll_s
        states = slurm_queue.states()
        if states is None:  # the controller does not answer; the jobs go on all the same
            return []
        forgotten = [job.id for job in self._jobs.values() if job.id and job.id not in states]
        states |= slurm_queue.accounted(forgotten) if forgotten else {}
        over = []
        for number, job in self._jobs.items():
            job.state = states.get(job.id, "GONE")
            if job.state in OVER and number not in self._told:
                self._told.add(number)
                over.append(number)
        return over

    def signal(self, job: int, number: int) -> None:
        """Cancel what waits and signal what runs."""
        if self._jobs[job].id:
            slurm_queue.send(self._jobs[job].id, signal.Signals(number))
        else:
            self._jobs[job].id = "never handed in"

    def exit_reason(self, job: int) -> str:
        ended = self._jobs[job]
        parent = self._jobs.get(ended.after or 0)
        dropped = parent and parent.state in OVER and parent.state != "COMPLETED"
        if ended.state not in FINAL or (dropped and ended.state == "CANCELLED"):
            return ""
        return f"its Slurm job {ended.id} {FINAL[ended.state]}"

    def _queued(self, run: Path) -> str:
        """The id of the job that an earlier sweep handed this run in as, if it is still there."""
        said = read_object(self._folder / f"{run.name}.json", keys=("job", "name"))
        if said is None or any(job.run == run.resolve() for job in self._jobs.values()):
            return ""
        return str(said["job"]) if self._earlier.get(said["job"]) == said["name"] else ""

    @functools.cached_property
    def _earlier(self) -> dict[str, str]:
        """What is in the queue when this sweep first asks."""
        return slurm_queue.names()

    def _hand_in(self) -> None:
        """Submit what was started since the last time: equal runs with one parent are one array."""
        batches: dict[tuple[Resources, int | None], list[_Job]] = {}
        for job in self._jobs.values():
            if not job.id:
                batches.setdefault((job.needed, job.after), []).append(job)
        for (needed, after), jobs in batches.items():
            self._submit(jobs, needed, self._jobs[after].id if after else None)

    def _submit(self, jobs: list[_Job], needed: Resources, parent: str | None) -> None:
        import submitit

        make_directory(self._folder)
        self._folder.chmod(0o700)
        _refuse_shared(self._outputs, self._folder)
        # New for each batch: a cluster that was set up again counts its jobs from 1 again, and
        # submitit would take what an old job of that number left for its own.
        name = secrets.token_hex(6)
        executor = submitit.SlurmExecutor(self._folder / name, self._options.max_num_timeout)
        executor.update_parameters(
            **self._options.sbatch(),
            **self._options.request(needed),
            job_name=name,
            wckey=None,
            stderr_to_stdout=True,
            srun_args=["--kill-on-bad-exit=1"],
            additional_parameters=_further(parent, self.code),
        )
        said = io.StringIO()  # submitit copies there what sbatch says
        try:
            with contextlib.redirect_stderr(said), executor.batch():
                handed = [executor.submit(Work(str(job.run), str(self.code))) for job in jobs]
        except submitit.core.utils.FailedJobError:
            words = [line.removeprefix("sbatch: error: ") for line in said.getvalue().splitlines()]
            sentence = f"hydra/launcher=slurm: sbatch refused the job: {shown('; '.join(words))}"
            raise UserError(sentence) from None
        for job, submitted in zip(jobs, handed, strict=True):
            job.id = submitted.job_id
            place = self._folder / f"{job.run.name}.json"
            publish_json(place, {"job": job.id, "name": name})


def _refuse_shared(*folders: Path) -> None:
    """Who can write what a job unpickles runs code as its owner."""
    for folder in folders:
        status = folder.stat()
        if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            expected = "a folder that only you may write to, since Slurm jobs run code from it"
            raise wrong("outputs", folder, expected, f"say `chmod go-w {folder}`")


def _further(parent: str | None, code: Path) -> dict[str, Any]:
    after = {"dependency": f"afterok:{parent}", "kill-on-invalid-dep": "yes"} if parent else {}
    return {"chdir": str(code), "requeue": True, **after}
