"""Compose configs with Hydra, and set the values of each point in a composed config."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sweeper.plan.hydra_errors import explained, unknown_key
from sweeper.plan.refused import refuse_tree
from sweeper.store.identity import leaves, lookup

CONF = Path(__file__).resolve().parents[2] / "conf"
OPEN = "model.options."
"""The prefix of keys that no yaml lists. The architecture of the model checks these keys."""
# Top-level keys that only the sweep reads. The config of a run leaves them out.
NOT_PART_OF_A_RUN = ("name", "experiment", "scale", "paths", "metric")


@dataclass
class Composer:
    """A cached interface to Hydra's config loader."""

    loader: ConfigLoader
    config_name: str = "config"
    _templates: dict[tuple[str, ...], RunTemplate] = field(default_factory=dict)
    _options: dict[str, list[str]] = field(default_factory=dict)

    def options(self, group: str) -> list[str]:
        """Return the names of the yaml files in a config group, or [] if the group is unknown."""
        if group not in self._options:
            options = self.loader.get_group_options(group, config_name=self.config_name)
            self._options[group] = options
        return self._options[group]

    def listed(self, group: str, option: str) -> dict[str, Any]:
        """Return the keys and values in the yaml file of an option of a config group.

        For example, `listed("optimizer", "linear")` returns {"optimizer.schedule": "linear", ...}.
        Leave out the keys of other files that the file names in its defaults list. Return {} if
        there is no such file.
        """
        path = f"{group}/{option}"
        for source in self.loader.get_sources():
            if source.is_config(path):
                own = OmegaConf.to_container(source.load_config(path).config)
                assert isinstance(own, dict)
                own.pop("defaults", None)
                return leaves({group: own})
        return {}

    def is_group(self, key: str) -> bool:
        """Return whether `key` is a config group, such as `task` or `model/attention`."""
        return "." not in key and bool(self.options(key))

    def compose(self, overrides: Iterable[str]) -> DictConfig:
        """Compose the config, including the section `hydra`. Leave interpolations unresolved.

        Raise UserError if Hydra cannot compose it. For an unknown key or option, the message
        suggests the closest existing name.
        """
        try:
            return self.loader.load_configuration(
                self.config_name, [*overrides], RunMode.RUN
            )
        except (
            HydraException,
            OmegaConfBaseException,
            YAMLError,
            ValueError,
        ) as problem:
            raise explained(problem) from None

    def hydra(self, overrides: Iterable[str]) -> dict[str, Any]:
        """Return the section `hydra`, which has the options of the sweeper and the launcher."""
        return _plain(self.compose(overrides).hydra)

    def base(self, overrides: Iterable[str]) -> RunTemplate:
        """Compose the config with these overrides, and return it as a template for runs.

        Raise UserError if Hydra cannot compose the config, or if `refuse_tree` refuses it.
        """
        key = tuple(overrides)
        if key not in self._templates:
            plain = _plain(self.compose(key))
            whole = {name: value for name, value in plain.items() if name != "hydra"}
            refuse_tree(whole)
            self._templates[key] = RunTemplate(whole)
        return self._templates[key]


class RunTemplate:
    """A composed config from which `run` makes the configs of runs."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole
        self._raw = {k: v for k, v in whole.items() if k not in NOT_PART_OF_A_RUN}
        self._interpolated = "${" in repr(self._raw)

    @cached_property
    def resolved(self) -> Mapping[str, Any]:
        """The whole config with resolved interpolations, but without the section `experiment`."""
        whole = {k: v for k, v in self._whole.items() if k != "experiment"}
        return _plain(OmegaConf.create(whole), resolve=True)

    @property
    def experiment(self) -> Any:
        """The section `experiment` with unresolved interpolations, or None if none is chosen."""
        return self._whole.get("experiment")

    @property
    def unresolved(self) -> Mapping[str, Any]:
        """The part of the config that runs have, with unresolved interpolations."""
        return self._raw

    @property
    def interpolations(self) -> dict[str, str]:
        """The unresolved values that refer to other keys, such as `${seed}`, by dotted key."""
        return {
            key: value
            for key, value in leaves(self._raw).items()
            if isinstance(value, str) and "${" in value
        }

    def has(self, key: str) -> bool:
        """Return whether the config accepts this dotted key.

        Every key that begins with `OPEN` is accepted, because the architecture checks it.
        """
        return _has(key, self._whole)

    def run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the resolved config of a run.

        `values` maps dotted keys to values that replace those of the template. Raise UserError for
        an unknown key.
        """
        config = copy.deepcopy(self._raw)
        for key, value in values.items():
            if not _has(key, config):
                raise unknown_key(key, leaves(self._raw))
            set_value(key, value, config)
        if self._interpolated or "${" in repr(values):
            config = _plain(OmegaConf.create(config), resolve=True)
        return config


def set_value(key: str, value: Any, config: dict[str, Any]) -> None:
    """Set the value of a dotted key in `config`. Create missing sections."""
    *sections, last = key.split(".")
    for section in sections:
        config = config.setdefault(section, {})
    config[last] = value


def _has(key: str, config: Mapping[str, Any]) -> bool:
    known = OPEN.rstrip(".") if key.startswith(OPEN) else key
    try:
        lookup(known, config)
    except KeyError:
        return False
    return True


def _plain(config: DictConfig, *, resolve: bool = False) -> dict[str, Any]:
    try:
        plain = OmegaConf.to_container(
            config, resolve=resolve, throw_on_missing=resolve
        )
    except OmegaConfBaseException as problem:
        raise explained(problem) from None
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}
