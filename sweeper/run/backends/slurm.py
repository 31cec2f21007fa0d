"""The options of the Slurm backend, and the checks before a sweep uses it.

The backend itself is in sweeper/run/slurm.py.
"""

import shutil
from dataclasses import dataclass
from typing import Annotated

from sweeper.run.backend import Backend, BackendContext
from sweeper.run.options import LimitedOptions, Lines, PositiveInt, Word, at_least
from sweeper.store.errors import invalid_value


@dataclass
class Options(LimitedOptions):
    """The options of conf/hydra/launcher/slurm.yaml."""

    partition: Word
    account: Word
    qos: Word
    constraint: Word
    reservation: Word
    nodelist: Word
    exclude: Word
    gres: Word
    mail_type: Word
    mail_user: Word
    timeout_min: PositiveInt
    mem_gb: Annotated[float | None, at_least(0.1)]
    cpus_per_device: Annotated[int | None, at_least(1)]
    gpus_per_device: Annotated[int, at_least(0)]
    setup: Lines
    jobs: PositiveInt
    runs_per_job: PositiveInt
    array_parallelism: PositiveInt
    signal_delay_s: PositiveInt
    max_num_timeout: Annotated[int, at_least(0)]
    poll_s: Annotated[float, at_least(0.1)]


def backend(context: BackendContext) -> Backend:
    """Return a backend on the Slurm cluster that this machine belongs to.

    Raises:
        UserError: Slurm or submitit is missing, other users can write to the outputs folder, or
            Slurm would refuse the job of a run.
    """
    try:
        import submitit  # noqa: F401
    except ImportError:
        remedy = "run `pip install 'headroom-attention[slurm]'`"
        raise invalid_value(
            "hydra/launcher", "slurm", "submitit to be installed", remedy
        ) from None
    if not shutil.which("sbatch"):
        expected = "a machine with the command sbatch"
        remedy = "run the sweep on a login node of the cluster"
        raise invalid_value("hydra/launcher", "slurm", expected, remedy)
    # The import is here, because the backend imports `Options` from this file.
    from sweeper.run import slurm

    # The backend checks the folder before each submission. Also check it now, to fail early.
    if context.outputs.exists():
        slurm.refuse_shared(context.outputs)
    slurm.leave_allocation()
    for needed in context.resources:
        slurm.check_room(context.options, needed)
    return slurm.SlurmBackend(context)
