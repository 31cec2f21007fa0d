"""Configs, composed by Hydra from conf/ and overrides; what runs have in common, and one run."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hydra import initialize_config_dir
from hydra.conf import HydraConf
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweeper.plan.hydra_errors import explained, leaves, unknown_key
from sweeper.plan.refused import refuse_tree

CONF = Path(__file__).resolve().parents[2] / "conf"
# What a composed config holds beside the description of one run.
NOT_PART_OF_A_RUN = ("experiment", "scale", "paths", "metric")


class Composer:
    """Composes configs by Hydra's own loader; remembers what it composed."""

    def __init__(self, loader: ConfigLoader, config_name: str = "config") -> None:
        self.loader = loader
        self._config_name = config_name
        self._templates: dict[tuple[str, ...], RunTemplate] = {}

    def options(self, group: str) -> list[str]:
        """The yaml files that `group` chooses from; none if it is no group."""
        return self.loader.get_group_options(group, config_name=self._config_name)

    def is_group(self, key: str) -> bool:
        """Whether `key` chooses a yaml file (`task`, `model/attention`) rather than a value."""
        return "." not in key and bool(self.options(key))

    def compose(self, overrides: Iterable[str]) -> DictConfig:
        """The config with Hydra's own section, interpolations unresolved.

        Raises:
            UserError: an unknown key or choice, with the nearest that exists.
        """
        try:
            return self.loader.load_configuration(self._config_name, [*overrides], RunMode.RUN)
        except (HydraException, OmegaConfBaseException) as problem:
            raise explained(problem) from None

    def base(self, overrides: Iterable[str]) -> RunTemplate:
        """What the runs composed from these overrides have in common.

        Raises:
            UserError: as `compose`, and code or a secret in the config.
        """
        key = tuple(overrides)
        if key not in self._templates:
            plain = _plain(self.compose(key))
            whole = {name: value for name, value in plain.items() if name != "hydra"}
            refuse_tree(whole)
            self._templates[key] = RunTemplate(whole)
        return self._templates[key]


def composer(conf: Path = CONF) -> Composer:
    """A composer of the configs in a folder, where no command line has made Hydra load one."""
    close_hydra()
    with initialize_config_dir(str(conf), version_base="1.3"):
        return Composer(GlobalHydra.instance().config_loader())


class RunTemplate:
    """A composed config (plain, interpolations unresolved) that points are written into."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole
        self._raw = {k: v for k, v in whole.items() if k not in NOT_PART_OF_A_RUN}
        self._interpolated = "${" in repr(self._raw)

    def beside(self, name: str) -> Any:
        """What the config holds beside the run (see `NOT_PART_OF_A_RUN`), resolved."""
        return _plain(OmegaConf.create(dict(self._whole)), resolve=True)[name]

    def run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The config of one run: the template with `values` (dotted key -> value), resolved.

        Raises:
            UserError: a key the config has not.
        """
        config = copy.deepcopy(self._raw)
        for key, value in values.items():
            self._set(config, key, value)
        if self._interpolated or "${" in repr(values):
            config = _plain(OmegaConf.create(config), resolve=True)
        return config

    def _set(self, config: dict[str, Any], key: str, value: Any) -> None:
        *parents, last = key.split(".")
        node: Any = config
        for part in parents:
            node = node.get(part) if isinstance(node, dict) else None
        if not isinstance(node, dict) or last not in node:
            raise unknown_key(key, leaves(self._raw))
        node[last] = value


def _plain(config: DictConfig, *, resolve: bool = False) -> dict[str, Any]:
    try:
        plain = OmegaConf.to_container(config, resolve=resolve, throw_on_missing=resolve)
    except OmegaConfBaseException as problem:
        raise explained(problem) from None
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def close_hydra() -> None:
    """Make read-only what Hydra would call, or configure logging with: no yaml file changes it.

    To be called before Hydra composes: it then refuses what touches this while composing, before it
    has called anything.
    """
    silent = {"version": 1, "root": None, "disable_existing_loggers": False}
    own = HydraConf(hydra_logging=silent, job_logging=dict(silent))
    closed = ("callbacks", "hydra_logging", "job_logging")
    own.defaults = [entry for entry in own.defaults if not entry.keys() & set(closed)]
    section = OmegaConf.structured(own)
    for name in closed:
        OmegaConf.set_readonly(section[name], True)
    ConfigStore.instance().store(group="hydra", name="config", node=section)
