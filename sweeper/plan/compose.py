"""Composition of configs by Hydra, and templates that make the config of each point."""

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
"""Keys below this one are free: the architecture checks them, not the yaml."""
# Keys of a composed config that the config of a run leaves out.
NOT_PART_OF_A_RUN = ("name", "experiment", "scale", "paths", "metric")


@dataclass
class Composer:
    """A composer of configs by Hydra's loader, with a cache."""

    loader: ConfigLoader
    config_name: str = "config"
    _templates: dict[tuple[str, ...], RunTemplate] = field(default_factory=dict)
    _options: dict[str, list[str]] = field(default_factory=dict)

    def options(self, group: str) -> list[str]:
        """Return the names of the yaml files of a group; empty if there is no such group."""
        if group not in self._options:
            options = self.loader.get_group_options(group, config_name=self.config_name)
            self._options[group] = options
        return self._options[group]

    def is_group(self, key: str) -> bool:
        """Return whether `key` chooses a yaml file, as `task` and `model/attention` do."""
        return "." not in key and bool(self.options(key))

    def compose(self, overrides: Iterable[str]) -> DictConfig:
        """Return the config with Hydra's own section and with unresolved interpolations.

        Raise UserError if Hydra cannot compose it. For an unknown key or choice, the message names
        the nearest one that exists.
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
        """Return Hydra's own section: the sweep's options and the chosen yaml files."""
        section = self.compose(overrides)._get_node("hydra")
        assert isinstance(section, DictConfig)
        return _plain(section)

    def base(self, overrides: Iterable[str]) -> RunTemplate:
        """Return the template of the runs with these overrides.

        Raise UserError as `compose`, and for a config that names code or holds a secret.
        """
        key = tuple(overrides)
        if key not in self._templates:
            plain = _plain(self.compose(key))
            whole = {name: value for name, value in plain.items() if name != "hydra"}
            refuse_tree(whole)
            self._templates[key] = RunTemplate(
                whole, plain["hydra"]["runtime"]["choices"]
            )
        return self._templates[key]


class RunTemplate:
    """A composed config. `run` writes the values of a point into a copy of it."""

    def __init__(
        self, whole: Mapping[str, Any], choices: Mapping[str, str | None] | None = None
    ) -> None:
        self._whole = whole
        self._choices = choices or {}
        self._raw = {k: v for k, v in whole.items() if k not in NOT_PART_OF_A_RUN}
        self._interpolated = "${" in repr(self._raw)

    @cached_property
    def beside(self) -> Mapping[str, Any]:
        """The whole resolved config, with the keys of `NOT_PART_OF_A_RUN`."""
        return _plain(OmegaConf.create(dict(self._whole)), resolve=True)

    def says(self, key: str, value: Any) -> bool:
        """Return whether a key has this value, or a group has this chosen yaml file."""
        if key in self._choices:
            return bool(self._choices[key] == value)
        found = leaves(self._whole).get(key)
        return type(found) is type(value) and bool(found == value)

    def has(self, key: str) -> bool:
        """Return whether the config has, or may have, this dotted key."""
        return _has(key, self._whole)

    def run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the resolved config of a run with these values by dotted key.

        Raise UserError for a key that the config lacks.
        """
        config = copy.deepcopy(self._raw)
        for key, value in values.items():
            if not _has(key, config):
                raise unknown_key(key, leaves(self._raw))
            *parents, last = key.split(".")
            node = config
            for part in parents:
                node = node.setdefault(part, {})
            node[last] = value
        if self._interpolated or "${" in repr(values):
            config = _plain(OmegaConf.create(config), resolve=True)
        return config


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
