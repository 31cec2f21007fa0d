"""The one file that talks to Hydra: reads overrides, composes configs, explains what is wrong."""

from __future__ import annotations

import copy
import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    ChoiceSweep,
    Glob,
    IntervalSweep,
    Override,
    QuotedString,
    RangeSweep,
    Transformer,
)
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweeper.plan.refused import refuse_hydra, refuse_key, refuse_path, refuse_tree
from sweeper.store.errors import UserError, wrong

CONF = Path(__file__).resolve().parents[2] / "conf"
# What a composed config holds beside the description of one run.
NOT_PART_OF_A_RUN = ("experiment", "scale", "paths", "metric")


@dataclass(frozen=True)
class Typed:
    """A command line, sorted: keys with one value, keys with several (axes), experiment names."""

    fixed: Mapping[str, str]  # key -> the override as typed
    values: Mapping[str, Any]  # the same keys -> the value
    axes: Mapping[str, list[Any]]
    experiments: list[str] = field(default_factory=list)


class Composer:
    """Composes configs from conf/ and overrides; remembers what it composed."""

    def __init__(self, conf: Path = CONF) -> None:
        active = GlobalHydra.instance()
        self.loader: ConfigLoader = (
            active.config_loader()
            if active.is_initialized()
            else ConfigLoaderImpl(create_config_search_path(str(conf)))
        )
        self._composed: dict[tuple[str, ...], DictConfig] = {}
        self._templates: dict[tuple[str, ...], RunTemplate] = {}

    def is_group(self, key: str) -> bool:
        """Whether `key` chooses a yaml file (`task`, `model/attention`) rather than a value."""
        return "." not in key and bool(self.loader.get_group_options(key))

    def read(self, arguments: Iterable[str], *, max_points: int) -> Typed:
        """Sort the overrides of a command line; its grid is counted before it is expanded.

        Raises:
            UserError: a malformed or repeated override, or more than `max_points` points.
        """
        by_key: dict[str, Override] = {}
        for override in self._parsed(arguments):
            key = override.key_or_group.lstrip("+")
            if key in by_key:
                raise UserError(
                    f"{key} is given twice ({by_key[key].input_line}, {override.input_line}); "
                    "give it once, several values separated by commas."
                )
            by_key[key] = override
        points = math.prod(self._count(o) for o in by_key.values() if o.is_sweep_override())
        if points > max_points:
            raise UserError(
                f"the grid has {points:,} points, more than hydra.sweeper.max_runs={max_points:,}; "
                "sweep fewer values or raise hydra.sweeper.max_runs."
            )
        swept = {k: self._values(o) for k, o in by_key.items() if o.is_sweep_override()}
        fixed = {k: str(o.input_line) for k, o in by_key.items() if not o.is_sweep_override()}
        if "scale" in swept:
            raise wrong(
                "scale",
                ",".join(map(str, swept["scale"])),
                "one scale",
                "sweep one scale at a time",
            )
        refuse_tree(swept)
        names = swept.pop("experiment", None)
        if names is None and "experiment" in fixed:
            names = [by_key["experiment"].value()]
            del fixed["experiment"]
        values = {key: _plain(by_key[key].value()) for key in fixed}
        return Typed(fixed, values, swept, [str(name) for name in names or [] if name is not None])

    def compose(self, overrides: Iterable[str]) -> DictConfig:
        """The config conf/ gives with these overrides, interpolations unresolved.

        Raises:
            UserError: an unknown key or choice, with the nearest that exists.
        """
        key = tuple(overrides)
        if key not in self._composed:
            try:
                self._composed[key] = self.loader.load_configuration(
                    "config", overrides=list(key), run_mode=RunMode.RUN
                )
            except (HydraException, OmegaConfBaseException) as problem:
                raise self._explained(problem) from None
        return self._composed[key]

    def check(self, arguments: Iterable[str]) -> None:
        """Compose what a command line fixes, for the sentence where that fails.

        Hydra composes it too before it hands over, and would tell the same in ten lines.

        Raises:
            UserError: a malformed override, an unknown key or choice.
        """
        fixed = [o for o in self._parsed(arguments) if not o.is_sweep_override()]
        lines = [str(override.input_line) for override in fixed]
        refuse_hydra(self.hydra(lines), self.hydra(()))
        self.base(lines)

    def hydra(self, overrides: Iterable[str]) -> dict[str, Any]:
        """The section `hydra` of the config: what the sweep itself is told."""
        section = self.compose(overrides)._get_node("hydra")
        plain = OmegaConf.to_container(section, resolve=False)
        assert isinstance(plain, dict)
        return {str(key): value for key, value in plain.items()}

    def base(self, overrides: Iterable[str]) -> RunTemplate:
        """What the runs composed from these overrides have in common."""
        key = tuple(overrides)
        if key not in self._templates:
            raw = OmegaConf.to_container(self.compose(key), resolve=False)
            assert isinstance(raw, dict)
            whole = {str(name): value for name, value in raw.items() if name != "hydra"}
            refuse_tree(whole)
            self._templates[key] = RunTemplate(whole)
        return self._templates[key]

    def _parsed(self, arguments: Iterable[str]) -> Iterable[Override]:
        parser = OverridesParser.create(self.loader)
        for argument in arguments:
            try:
                override = parser.parse_override(argument)
            except HydraException:
                raise UserError(
                    f"{argument!r} cannot be read as an override; write key=value, or "
                    "key=a,b,c for several values."
                ) from None
            key = override.key_or_group
            refuse_key(key)
            if "/" in key or self.is_group(key):
                refuse_path(key, argument.partition("=")[2])
            if not override.is_sweep_override():
                refuse_tree({override.key_or_group: _plain(override.value())})
            yield override

    def _count(self, override: Override) -> int:
        value = override.value()
        if isinstance(value, RangeSweep):
            assert value.start is not None
            assert value.stop is not None
            return max(0, math.ceil((value.stop - value.start) / value.step))
        if isinstance(value, ChoiceSweep):
            return len(value.list)
        if isinstance(value, Glob):
            return len(self.loader.get_group_options(override.key_or_group))
        return 1

    def _values(self, override: Override) -> list[Any]:
        if isinstance(override.value(), IntervalSweep):
            raise wrong(
                override.key_or_group,
                override.get_value_element_as_str(),
                "values that can be listed",
                "use a,b,c or range(start,stop,step)",
            )
        values = [_plain(v) for v in override.sweep_iterator(transformer=Transformer.identity)]
        if not values:
            raise wrong(
                override.key_or_group,
                override.get_value_element_as_str(),
                "at least one value",
                "nothing matches it; list the values",
            )
        return values

    def _explained(self, problem: Exception) -> UserError:
        text = _first_line(problem)
        unknown = re.search(r"Could not (?:override|append to config|delete).*?'([^']+)'", text)
        if unknown:
            known = list(_leaves(OmegaConf.to_container(self.compose(()), resolve=False)))
            return unknown_key(unknown.group(1), known)
        choice = re.search(r"(?:Could not find|In .*: Could not find) '([^']+)'", text)
        if choice:
            group, _, name = choice.group(1).rpartition("/")
            options = self.loader.get_group_options(group) if group else []
            return wrong(
                group,
                name,
                f"one of {', '.join(options) or 'the files in conf/'}",
                f"correct it, or add conf/{choice.group(1)}.yaml",
            )
        return UserError(text)


class RunTemplate:
    """A composed config (plain, interpolations unresolved) that points are written into."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole
        self._raw = {k: v for k, v in whole.items() if k not in NOT_PART_OF_A_RUN}
        self._interpolated = "${" in repr(self._raw)

    def beside(self, name: str) -> Any:
        """What the config holds beside the run (see `NOT_PART_OF_A_RUN`), resolved."""
        return _resolved(self._whole)[name]

    def run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The config of one run: the template with `values` (dotted key -> value), resolved.

        Raises:
            UserError: a key the config has not.
        """
        config = copy.deepcopy(self._raw)
        for key, value in values.items():
            self._set(config, key, value)
        if self._interpolated or "${" in repr(values):
            config = _resolved(config)
        return config

    def _set(self, config: dict[str, Any], key: str, value: Any) -> None:
        *parents, last = key.split(".")
        node: Any = config
        for part in parents:
            node = node.get(part) if isinstance(node, dict) else None
        if not isinstance(node, dict) or last not in node:
            raise unknown_key(key, list(_leaves(self._raw)))
        node[last] = value


def unknown_key(key: str, known: list[str]) -> UserError:
    """The sentence for a key that does not exist, with the nearest ones that do."""
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "`--cfg job` prints every key."
    return UserError(f"{key} is not a key of the config; {hint}")


def _resolved(config: Mapping[str, Any]) -> dict[str, Any]:
    try:
        plain = OmegaConf.to_container(
            OmegaConf.create(dict(config)), resolve=True, throw_on_missing=True
        )
    except OmegaConfBaseException as problem:
        raise UserError(_first_line(problem)) from None
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _leaves(tree: Any, prefix: str = "") -> Iterable[str]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        elif not prefix.startswith("hydra."):
            yield f"{prefix}{key}"


def _plain(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(entry) for key, entry in value.items()}
    return value


def _first_line(problem: Exception) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(problem).__name__
