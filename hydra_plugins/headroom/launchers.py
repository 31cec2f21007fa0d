"""Names of the backends for Hydra: `hydra/launcher=local`. Options: conf/hydra/launcher."""

from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class _Backend(Launcher):
    """Options of a backend. Runs are executed by HeadroomSweeper, which reads them."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        pass

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        raise NotImplementedError("Headroom's launchers work with hydra/sweeper=headroom only.")


class LocalLauncher(_Backend):
    """Runs on this machine."""
