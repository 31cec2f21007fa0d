"""Hydra's own section of the config, before Hydra composes it: what it checks, what it refuses.

The yaml of the sweeper and of each launcher names its schema here, a dataclass, so that Hydra
refuses an unknown key and a wrong type. What Hydra would call is read-only, so that Hydra refuses
whatever touches it while composing, before it has called anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hydra import initialize_config_dir
from hydra.conf import HydraConf
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from sweeper.options import SweepOptions
from sweeper.plan.compose import CONF, Composer
from sweeper.store import registry

SWEEPER = "hydra_plugins.headroom.sweeper.HeadroomSweeper"
# An enumeration of one: the class that Hydra makes a sweeper of cannot be another.
Target = StrEnum("Target", {SWEEPER: SWEEPER})  # type: ignore[misc]


@dataclass
class _Schema(SweepOptions):
    _target_: Target = Target[SWEEPER]


def declare() -> None:
    """Tell Hydra all this. Every program that composes configs of conf/ does so first."""
    store = ConfigStore.instance().store
    store(group="schema/sweeper", name="headroom", node=_Schema)
    for name in registry.names(registry.BACKENDS):
        options = registry.function(registry.BACKENDS, name, "hydra/launcher", "Options")
        store(group="schema/launcher", name=name, node=options)
    silent = {"version": 1, "root": None, "disable_existing_loggers": False}
    own = HydraConf(hydra_logging=silent, job_logging=dict(silent))
    closed = ("callbacks", "hydra_logging", "job_logging")
    own.defaults = [entry for entry in own.defaults if not entry.keys() & set(closed)]
    section = OmegaConf.structured(own)
    for name in closed:
        OmegaConf.set_readonly(section[name], True)
    store(group="hydra", name="config", node=section)


def composer(conf: Path = CONF) -> Composer:
    """A composer of the configs in a folder, where no command line has made Hydra load one."""
    declare()
    with initialize_config_dir(str(conf), version_base="1.3"):
        return Composer(GlobalHydra.instance().config_loader())
