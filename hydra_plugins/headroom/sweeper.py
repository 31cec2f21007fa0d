"""Hydra's door to the sweep: `python sweep.py -m model.heads=4,8` arrives here."""

# Hydra executes this file before it is in sys.modules: no postponed annotations here.
import sys
from typing import (
    Any,
    cast,
)

from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


class HeadroomSweeper(Sweeper):
    """Hands the command line to `sweeper.sweep`; what a person can mend becomes one sentence."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.config: DictConfig | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.config = config

    def sweep(self, arguments: list[str]) -> None:
        from sweeper.store.errors import UserError
        from sweeper.sweep import sweep

        assert self.config is not None
        # Hydra's own launchers run functions of this process; a backend is only named by the group.
        launcher = self.config.hydra.runtime.choices["hydra/launcher"]
        options = cast(dict[str, Any], OmegaConf.to_object(self.config.hydra.launcher))
        try:
            code = sweep(arguments, sweeper=self.options, launcher=launcher, options=options)
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            code = 2
        except KeyboardInterrupt as stopped:
            code = getattr(stopped, "code", 130)
        if code:
            sys.exit(code)
