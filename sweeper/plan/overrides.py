"""Parse the overrides of a command line, and choose a default name for its results."""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    Glob,
    Override,
)
from hydra.errors import HydraException

from sweeper.plan.compose import Composer
from sweeper.plan.experiment import Experiment
from sweeper.plan.hydra_errors import explained
from sweeper.plan.refused import refuse_key, refuse_path, refuse_tree
from sweeper.store.errors import UserError, invalid_value, spelled
from sweeper.store.identity import can_change_results, digest_of


def folder_override(key: str, folder: str | Path) -> str:
    """Return the override KEY='FOLDER', escaped so that Hydra accepts any name of a folder."""
    # Hydra reads a backslash literally, except before a quote. So double it only there.
    quoted = re.sub(r"(\\+)(?='|$)", r"\1\1", str(folder)).replace("'", "\\'")
    return f"{key}='{quoted}'"


@dataclass(frozen=True)
class CommandLine:
    """The overrides of a command line. All keys are stored without leading plus signs.

    Attributes:
        fixed: the text of each override that sets one value, such as "model.heads=8", by key.
            Overrides of keys that begin with `experiment.` are left out.
        values: the value of each override that sets one value, by key. Includes the keys that begin
            with `experiment.`.
        axes: the values of each override with several values, by key. For example, "model.heads"
            maps to [4, 8] for "model.heads=4,8".
        experiments: the names of the chosen experiments.
        added: the keys that the user wrote with a single plus sign.
    """

    fixed: Mapping[str, str]
    values: Mapping[str, Any]
    axes: Mapping[str, list[Any]]
    experiments: list[str]
    added: Collection[str]

    @property
    def keys(self) -> set[str]:
        """All keys that the command line sets."""
        return {*self.values, *self.axes}


def read(
    arguments: Iterable[str], composer: Composer, *, max_points: int
) -> CommandLine:
    """Parse the overrides of a command line.

    Raise UserError for a malformed or repeated override. Read at most `max_points` + 1 values of an
    override, which is enough for the planner to refuse the sweep as too large.
    """
    by_key = _parsed(arguments, composer)
    axes = {
        key: _listed(key, override, composer, max_points + 1)
        for key, override in by_key.items()
        if override.is_sweep_override()
    }
    refuse_tree(axes)
    for key, listed in axes.items():
        _check_axis(key, listed)

    values = {
        key: None if one.is_delete() else one.value()
        for key, one in by_key.items()
        if key not in axes
    }
    names = axes.pop("experiment", None) or [values.pop("experiment", None)]
    for name in names:
        if isinstance(name, list) or (name is None and len(names) > 1):
            remedy = "write for example experiment=fig1,fig3"
            raise invalid_value("experiment", name, "names of experiments", remedy)
    experiments = [str(name) for name in names if name is not None]
    fixed = {
        key: str(by_key[key].input_line)
        for key in values
        if not key.startswith("experiment.")
    }
    added = {key for key, override in by_key.items() if override.is_add()}
    return CommandLine(fixed, values, axes, experiments, added)


def _parsed(arguments: Iterable[str], composer: Composer) -> dict[str, Override]:
    """Parse and check overrides. Return each override by its key, without leading plus signs."""
    by_key: dict[str, Override] = {}
    parser = OverridesParser.create(composer.loader)
    try:
        overrides = parser.parse_overrides([*arguments])
    except HydraException as problem:
        raise explained(problem) from None
    for override in overrides:
        key = override.key_or_group
        refuse_key(f"~{key}" if override.is_delete() else key)
        if "/" in key or composer.is_group(key):
            refuse_path(key, _right_side(override))
        if not override.is_sweep_override() and not key.startswith("hydra."):
            refuse_tree({key: override.value()})
            if isinstance(override.value(), dict) and not key.startswith("experiment."):
                remedy = f"set its keys one by one, as in {key}.KEY=VALUE"
                raise invalid_value(key, _right_side(override), "one value", remedy)
        plain = key.lstrip("+")
        if (known := by_key.setdefault(plain, override)) is not override:
            raise UserError(
                f"{plain} is set twice ({known.input_line}, {override.input_line}); "
                "set it once, and separate several values by commas."
            )
    return by_key


def _listed(key: str, override: Override, composer: Composer, most: int) -> list[Any]:
    """Return the values of an override with several values, but at most `most` of them.

    The override may be a list (a,b), a range (range(1,9)), or a glob of the options of a config
    group (glob(*)). All options that match a glob are returned.
    """
    if isinstance(pattern := override.value(), Glob):
        values = pattern.filter(composer.options(key))
    else:
        try:
            swept = override.sweep_iterator(transformer=Override._convert_value)
            values = [*itertools.islice(swept, most)]
        except (HydraException, ValueError, ArithmeticError):
            expected = "a list of values or a finite range"
            remedy = "write a,b,c or range(start,stop,step)"
            raise invalid_value(key, _right_side(override), expected, remedy) from None
    if not values:
        remedy = "correct the pattern or the range, or list the values"
        raise invalid_value(key, _right_side(override), "at least one value", remedy)
    return values


def _check_axis(key: str, values: list[Any]) -> None:
    """Raise UserError if a key such as `scale` is swept, or if a value refers to another key."""
    listed = ",".join(map(spelled, values))
    if key.startswith("experiment."):
        remedy = (
            f"to set a list, write '{key}=[{listed}]'; to sweep seeds, write seed=0,1,2"
        )
        raise invalid_value(key, listed, "one value", remedy)
    if key == "scale" or not can_change_results(key):
        # All points of a sweep have the same scale. A key that cannot change results would give the
        # same runs for each value.
        remedy = "start one sweep for each value"
        raise invalid_value(key, listed, "one value", remedy)
    if "${" in listed:
        # Points are named and compared by their values. So no value may refer to another key.
        expected = "no reference to another key"
        remedy = "write the values, or start one sweep for each of them"
        raise invalid_value(key, listed, expected, remedy)


def absolute_path(key: str, value: Any) -> Path:
    """Return `value` as an absolute path, with ~ expanded. Raise UserError if it is no path.

    The message names `key`.
    """
    # expanduser raises RuntimeError for `~name` if there is no such user.
    with suppress(RuntimeError):
        if isinstance(value, str) and value:
            return Path(value).expanduser().absolute()
    raise invalid_value(key, value, "a folder", "give its path")


def _right_side(override: Override) -> str:
    """Return the text after the first equals sign of an override."""
    return str(override.input_line).partition("=")[2]


# The largest length of `name` in characters. Names of files begin with `name`, and most file
# systems allow only 255 bytes.
_LONGEST = 56
_PLAIN = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{_LONGEST - 1}}}")


def check_name(name: Any, experiments: int) -> None:
    """Raise UserError if `name` is invalid, or would name the results of several experiments."""
    expected = f"at most {_LONGEST} letters, digits, '_' and '-', beginning with a letter or digit"
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise invalid_value("name", name, expected, "choose another name")
    if experiments > 1:
        raise UserError(
            f"name={name} cannot name the results of {experiments} experiments; sweep one "
            "experiment at a time, or leave name out."
        )


def name_of(
    command_line: CommandLine, experiment: Experiment | None, composer: Composer
) -> str:
    """Return the default name for the results of a command line, such as "fig1-3f2a9c01".

    The name has two parts:

    1. The name of the experiment. Without an experiment, "grid" if a key other than `seed` is
       swept, else "run".
    2. A hash of the overrides that can change results. Leave out a `scale` that is the default, and
       a `seed` that includes all seeds of the experiment or of the config. If no override is left,
       leave out this part.
    """
    base = "grid" if command_line.axes.keys() - {"seed"} else "run"
    if experiment:
        base = experiment.yaml
    given = {**command_line.axes, **command_line.values}
    changes = {key: value for key, value in given.items() if can_change_results(key)}

    plain = composer.base([f"experiment={experiment.yaml}"] if experiment else [])
    if changes.get("scale") == plain.resolved["scale"]["name"]:
        del changes["scale"]
    own_seeds = experiment.seeds if experiment else [plain.run({})["seed"]]
    seeds = command_line.axes.get("seed") or [command_line.values.get("seed")]
    if {*own_seeds} <= {*seeds}:
        del changes["seed"]
    return f"{base}-{digest_of(changes)[:8]}" if changes else base
