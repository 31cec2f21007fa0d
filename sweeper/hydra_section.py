"""Schemas for the config sections `hydra.sweeper` and `hydra.launcher`.

A schema is a dataclass. The yaml of the sweeper and of each launcher names its schema, so that
Hydra refuses unknown keys and wrong types. The parts of the section `hydra` that name code to call
are read-only, so that no override can make Hydra call other code.
"""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.conf import HydraConf
from hydra.core.config_search_path import SearchPathElement
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from sweeper.plan.compose import CONF, Composer
from sweeper.plan.yaml_limits import check_yaml
from sweeper.run.options import SweepOptions
from sweeper.store import registry
from sweeper.store.errors import UserError

SWEEPER = "hydra_plugins.headroom.sweeper.HeadroomSweeper"
# An enumeration with one member, so that `hydra.sweeper._target_` cannot name another class.
Target = StrEnum("Target", {SWEEPER: SWEEPER})  # type: ignore[misc]


@dataclass
class _Schema(SweepOptions):
    _target_: Target = Target[SWEEPER]


def declare() -> None:
    """Register the schemas with Hydra, and turn Hydra's logging off.

    Call this before composing a config.
    """
    store = ConfigStore.instance().store
    store(group="schema/sweeper", name="headroom", node=_Schema)
    for name in registry.names(registry.BACKENDS):
        try:
            options = registry.function(
                registry.BACKENDS, name, "hydra/launcher", "Options"
            )
        except UserError as error:
            # Only warn, since this sweep may not need the broken package.
            print(
                f"warning: hydra/launcher={name} is not available: {error}",
                file=sys.stderr,
            )
        else:
            store(group="schema/launcher", name=name, node=options)
    silent = {"version": 1, "root": None, "disable_existing_loggers": False}
    own = HydraConf(hydra_logging=silent, job_logging=dict(silent))
    closed = ("callbacks", "hydra_logging", "job_logging")
    own.defaults = [entry for entry in own.defaults if not entry.keys() & set(closed)]
    section = OmegaConf.structured(own)
    for name in closed:
        OmegaConf.set_readonly(section[name], True)
    store(group="hydra", name="config", node=section)


def composer(conf: Path = CONF, config_dir: str | None = None) -> Composer:
    """Return a Composer for programs that compose configs without Hydra's command line.

    Args:
        conf: the folder of configs.
        config_dir: a folder to add to the search path, as Hydra's flag `--config-dir` does.

    Raises:
        UserError: a yaml file has too many values or levels.
    """
    declare()
    for folder in (conf, *([Path(config_dir)] if config_dir else [])):
        check_yaml(folder)
    with initialize_config_dir(str(conf), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
    if config_dir is not None:
        search_path = loader.get_search_path()
        place = f"file://{Path(config_dir).absolute()}"
        element = SearchPathElement("command-line", place)
        search_path.get_path().insert(-1, element)  # the schemas must stay last
        loader = ConfigLoaderImpl(search_path)
    return Composer(loader)
