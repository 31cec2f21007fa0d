"""Runs as Slurm jobs, through submitit (sweeper/run/slurm.py)."""

import shutil

from sweeper.run.backend import Backend, BackendContext
from sweeper.run.options import SlurmOptions as Options
from sweeper.store.errors import invalid_value

__all__ = ["Options", "backend"]


def backend(context: BackendContext) -> Backend:
    """Return a backend on the cluster that this machine can submit to.

    Raises:
        UserError: an option that cannot be, no Slurm, no submitit, a folder others may write to, or
            runs that no node has room for.
    """
    try:
        import submitit  # noqa: F401
    except ImportError:
        remedy = "pip install 'headroom-attention[slurm]'"
        raise invalid_value("hydra/launcher", "slurm", "submitit to be installed", remedy) from None
    if not shutil.which("sbatch"):
        expected = "a machine from which Slurm jobs can be submitted, but there is no sbatch"
        raise invalid_value("hydra/launcher", "slurm", expected, "log in to one")
    from sweeper.run import slurm  # here: every command line reads the options above

    if context.outputs.exists():
        slurm.refuse_shared(context.outputs)  # checked again before each submission
    for needed in context.resources:
        slurm.check_room(context.options, needed)
    return slurm.SlurmBackend(context, slurm.read_limits(context.options))
