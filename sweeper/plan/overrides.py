"""Parse the overrides of a command line, and choose a default name for its results."""

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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

from sweeper.plan.compose import Composer
from sweeper.plan.experiment import Experiment
from sweeper.plan.grid import check_size
from sweeper.plan.hydra_errors import explained
from sweeper.plan.refused import refuse_key, refuse_path, refuse_tree
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.identity import can_change_results, digest_of


def folder_override(key: str, folder: str | Path) -> str:
    """Return the override that sets a key to a folder, quoted so that any name is allowed."""
    # Hydra reads a backslash literally, except before a quote.
    quoted = re.sub(r"(\\+)(?='|$)", r"\1\1", str(folder)).replace("'", "\\'")
    return f"{key}='{quoted}'"


@dataclass(frozen=True)
class CommandLine:
    """The overrides of a command line. Their keys are stored without leading plus signs.

    Attributes:
        fixed: the overrides that set one value, such as "model.heads=8", by key.
        values: the parsed values of the overrides in `fixed`, by key.
        axes: the values to sweep, by key, such as [4, 8] for "model.heads=4,8".
        experiments: the names of the chosen experiments.
    """

    fixed: Mapping[str, str]
    values: Mapping[str, Any]
    axes: Mapping[str, list[Any]]
    experiments: list[str] = field(default_factory=list)

    @property
    def keys(self) -> set[str]:
        """All keys that the command line sets."""
        return {*self.values, *self.axes}


def read(
    arguments: Iterable[str], composer: Composer, *, max_points: int
) -> CommandLine:
    """Parse the overrides of a command line.

    Raise UserError for a malformed or repeated override, and for a grid of more than `max_points`
    points. The points are counted before the grid is expanded.
    """
    by_key = _parsed(arguments, composer)
    several = {
        key: override
        for key, override in by_key.items()
        if override.is_sweep_override()
    }
    points = math.prod(_count(override, composer) for override in several.values())
    check_size(points, max_points, "the grid")
    axes = {key: _listed(key, override, composer) for key, override in several.items()}
    refuse_tree(axes)
    for key, listed in axes.items():
        _check_axis(key, listed)

    values = {key: _plain(o.value()) for key, o in by_key.items() if key not in several}
    names = axes.pop("experiment", None) or [values.pop("experiment", None)]
    for name in names:
        if isinstance(name, list) or (name is None and len(names) > 1):
            remedy = "write for example experiment=fig1,fig3"
            raise invalid_value("experiment", name, "names of experiments", remedy)
    fixed = {key: str(by_key[key].input_line) for key in values}
    return CommandLine(
        fixed, values, axes, [str(name) for name in names if name is not None]
    )


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
            refuse_tree({key: _plain(override.value())})
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


def _listed(key: str, override: Override, composer: Composer) -> list[Any]:
    """Return the values of an override with several values, such as a list, range or glob."""
    if isinstance(pattern := override.value(), Glob):
        values = [*pattern.filter(composer.options(key))]
    else:
        swept = override.sweep_iterator(transformer=Transformer.identity)
        values = [*map(_plain, swept)]
    if not values:
        remedy = "correct the pattern or the range, or list the values"
        raise invalid_value(key, _right_side(override), "at least one value", remedy)
    return values


def _check_axis(key: str, values: list[Any]) -> None:
    """Raise UserError if `key` cannot be swept, such as `scale` or `name`."""
    listed = ",".join(map(str, values))
    if key.startswith("experiment."):
        remedy = f"to set a list, write '{key}=[{listed}]'; to sweep seeds, write seed={listed}"
        raise invalid_value(key, listed, "one value", remedy)
    if key in ("scale", "name", "paths.outputs"):
        raise invalid_value(key, listed, "one value", f"start one sweep for each {key}")
    if not can_change_results(key):
        # All its values would be the same run.
        expected = "one value, since this key cannot change the result of a run"
        raise invalid_value(key, listed, expected, "choose one")
    if "${" in listed:
        # Points are named and compared by their values.
        expected = "no reference to another key"
        remedy = "write the values, or start one sweep for each of them"
        raise invalid_value(key, listed, expected, remedy)


def absolute_path(key: str, value: Any) -> Path:
    """Return the value of a key as an absolute path. Raise UserError if it is not a path."""
    # expanduser raises RuntimeError for `~name` if there is no such user.
    with suppress(RuntimeError):
        if isinstance(value, str) and value:
            return Path(value).expanduser().absolute()
    raise invalid_value(key, value, "a folder", "give its path")


def _count(override: Override, composer: Composer) -> int:
    """Return the number of values of an override without listing them."""
    key, value = override.key_or_group, override.value()
    if isinstance(value, IntervalSweep):
        remedy = "write a,b,c or range(start,stop,step)"
        raise invalid_value(key, _right_side(override), "a list of values", remedy)
    if isinstance(value, RangeSweep):
        assert value.start is not None
        assert value.stop is not None
        if not (value.step and math.isfinite(value.stop - value.start)):
            remedy = "write range(start,stop,step)"
            raise invalid_value(key, _right_side(override), "a finite range", remedy)
        return max(0, math.ceil((value.stop - value.start) / value.step))
    if isinstance(value, ChoiceSweep):
        return len(value.list)
    return len(composer.options(key)) if isinstance(value, Glob) else 1


def _right_side(override: Override) -> str:
    """Return what stands after the equals sign of an override."""
    return str(override.input_line).partition("=")[2]


def _plain(value: Any) -> Any:
    """Return a value of Hydra's parser with its QuotedString objects replaced by str."""
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(entry) for key, entry in value.items()}
    return value


# The largest length of `name`. File names begin with it, and may have only 255 bytes.
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
    """Return the default name for the results of a command line.

    The name begins with that of the experiment. Without an experiment, it begins with `grid` if a
    key other than `seed` is swept, else with `run`. If overrides can change results, append a hash
    of these overrides. Leave out `scale` if it is the default, and `seed` if it only adds seeds to
    those of the config.
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
