"""Headroom's plugins for Hydra: a sweeper, and a search path with yaml files of other packages."""

# Do not add `from __future__ import annotations` here. It fails, because Hydra executes this file
# before adding it to sys.modules.
import logging
import sys
from pathlib import Path
from typing import Any, cast

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


class HeadroomSweeper(Sweeper):
    """A plugin that passes the overrides and Hydra's config loader to `sweeper.stages.sweep`."""

    def __init__(self, **options: Any) -> None:
        """Ignore `options`. The method `sweep` reads `hydra.sweeper` from the config."""

    def setup(
        self,
        *,
        hydra_context: HydraContext,
        task_function: TaskFunction,
        config: DictConfig,
    ) -> None:
        from sweeper.plan.compose import CONF
        from sweeper.store.errors import UserError

        self.loader = hydra_context.config_loader
        for source in self.loader.get_search_path().get_path():
            if source.provider != "command-line":
                continue
            for shipped in sorted(CONF.rglob("*.yaml")):
                own = Path(source.path.removeprefix("file://")) / shipped.relative_to(
                    CONF
                )
                if own.exists() and own.read_bytes() != shipped.read_bytes():
                    raise UserError(
                        f"{own} would be ignored, since conf/ has a file with this name. Rename "
                        "your file."
                    )
        self.config = config

    def sweep(self, arguments: list[str]) -> None:
        from sweeper.plan.compose import Composer
        from sweeper.run.options import SweepOptions
        from sweeper.stages.sweep import sweep

        assert self.config is not None
        section = self.config.hydra
        # For hydra.verbose, Hydra has set the levels of loggers, but has added no handler, since
        # hydra_section.py turns Hydra's logging off.
        if section.verbose:
            logging.basicConfig()
        try:
            code = sweep(
                arguments,
                composer=Composer(self.loader, section.job.config_name),
                options=cast(SweepOptions, OmegaConf.to_object(section.sweeper)),
                # Pass the name instead of an object that Hydra instantiates, because Headroom's
                # backends (sweeper/run/backends) are not launchers of Hydra.
                launcher=section.runtime.choices["hydra/launcher"],
                launcher_options=OmegaConf.to_object(section.launcher),
                verbose=bool(section.verbose),
            )
        except KeyboardInterrupt as stopped:
            code = getattr(stopped, "code", 130)
        if code:
            sys.exit(code)


class InstalledConfigs(SearchPathPlugin):
    """A plugin that adds folders of yaml files to Hydra's search path.

    Installed packages name their folders in the entry points `headroom.conf`.
    """

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        from sweeper.store.registry import folders_of_conf

        for package, folder in folders_of_conf().items():
            search_path.append(package, f"file://{folder}")
