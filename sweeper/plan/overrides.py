"""The overrides of a command line, sorted by kind, and the name of its results."""

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
from sweeper.plan.hydra_errors import unreadable
from sweeper.plan.refused import refuse_key, refuse_path, refuse_tree
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.identity import can_change_results, digest_of


def outputs_override(outputs: str | Path) -> str:
    """Return the override that sets the outputs folder, in quotes that any folder's name needs."""
    # Hydra reads a backslash as such, unless a quote follows.
    quoted = re.sub(r"(\\+)(?='|$)", r"\1\1", str(outputs)).replace("'", "\\'")
    return f"paths.outputs='{quoted}'"


@dataclass(frozen=True)
class Typed:
    """A command line: keys with one value, keys with several (axes), experiment names."""

    fixed: Mapping[str, str]  # key -> the override as typed
    values: Mapping[str, Any]  # the same keys -> the value
    axes: Mapping[str, list[Any]]
    experiments: list[str] = field(default_factory=list)


def read(arguments: Iterable[str], composer: Composer, *, max_points: int) -> Typed:
    """Sort the overrides of a command line; its grid is counted before it is expanded.

    Raise UserError for a malformed or repeated override, or more than `max_points` points.
    """
    by_key: dict[str, Override] = {}
    parser = OverridesParser.create(composer.loader)
    for argument in arguments:
        try:
            override = parser.parse_override(argument)
        except HydraException:
            raise unreadable(argument) from None
        key = override.key_or_group
        refuse_key(f"~{key}" if override.is_delete() else key)
        if "/" in key or composer.is_group(key):
            refuse_path(key, argument.partition("=")[2])
        if not override.is_sweep_override() and not key.startswith("hydra."):
            refuse_tree({key: _plain(override.value())})
            if isinstance(override.value(), dict) and not key.startswith("experiment."):
                expected, remedy = "one value", f"type its keys one by one, as {key}.KEY=VALUE"
                raise invalid_value(key, _right_side(override), expected, remedy)
        if (known := by_key.setdefault(key.lstrip("+"), override)) is not override:
            raise UserError(
                f"{key.lstrip('+')} is given twice ({known.input_line}, {override.input_line}); "
                "give it once, several values separated by commas."
            )
    several = {k: o for k, o in by_key.items() if o.is_sweep_override()}
    check_size(math.prod(_count(o, composer) for o in several.values()), max_points, "the grid")
    axes: dict[str, list[Any]] = {}
    for key, override in several.items():
        if isinstance(asked := override.value(), Glob):
            axes[key] = [*asked.filter(composer.options(key))]
        else:
            axes[key] = [*map(_plain, override.sweep_iterator(transformer=Transformer.identity))]
        if not axes[key]:
            remedy = "nothing matches it; list the values"
            raise invalid_value(key, _right_side(override), "at least one value", remedy)
    for key, asked_for in axes.items():
        if key in ("scale", "name", "paths.outputs") or key.startswith("experiment."):
            listed = ",".join(map(str, asked_for))
            expected, remedy = f"one {key}", f"sweep one {key} at a time"
            if key.startswith("experiment."):
                expected = "one value"
                remedy = f"write a list as '{key}=[{listed}]'; seeds are swept by seed={listed}"
            raise invalid_value(key, listed, expected, remedy)
    refuse_tree(axes)
    values = {key: _plain(o.value()) for key, o in by_key.items() if key not in several}
    names = axes.pop("experiment", None) or [values.pop("experiment", None)]
    for name in names:
        if isinstance(name, list) or (name is None and len(names) > 1):
            expected, remedy = "names of experiments", "write experiment=fig1,fig3"
            raise invalid_value("experiment", name, expected, remedy)
    fixed = {key: str(by_key[key].input_line) for key in values}
    return Typed(fixed, values, axes, [str(name) for name in names if name is not None])


def typed_path(key: str, typed: Any) -> Path:
    """Return the absolute path of the folder that a key names; UserError if it names none."""
    with suppress(RuntimeError):  # ~name of nobody
        if isinstance(typed, str) and typed:
            return Path(typed).expanduser().absolute()
    raise invalid_value(key, typed, "a folder", "give its path")


def _count(override: Override, composer: Composer) -> int:
    value = override.value()
    if isinstance(value, IntervalSweep):
        expected, remedy = "values that can be listed", "use a,b,c or range(start,stop,step)"
        raise invalid_value(override.key_or_group, _right_side(override), expected, remedy)
    if isinstance(value, RangeSweep):
        assert value.start is not None
        assert value.stop is not None
        if not (value.step and math.isfinite(value.stop - value.start)):
            expected, remedy = "a range that ends", "give start,stop,step"
            raise invalid_value(override.key_or_group, _right_side(override), expected, remedy)
        return max(0, math.ceil((value.stop - value.start) / value.step))
    if isinstance(value, ChoiceSweep):
        return len(value.list)
    return len(composer.options(override.key_or_group)) if isinstance(value, Glob) else 1


def _right_side(override: Override) -> str:
    return str(override.input_line).partition("=")[2]


def _plain(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(entry) for key, entry in value.items()}
    return value


_LONGEST = 56  # letters of a typed name; with a suffix it is still the name of a file
_PLAIN = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{_LONGEST - 1}}}")


def check_name(name: Any, experiments: int) -> None:
    """Raise UserError if `name` is invalid, or would name the results of several experiments."""
    expected = f"at most {_LONGEST} letters, digits, '_' and '-', a letter or a digit first"
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise invalid_value("name", name, expected, "choose another name")
    if experiments > 1:
        raise invalid_value("name", name, "one experiment or grid to name", "type them one by one")


def name_of(typed: Typed, experiment: Experiment | None, composer: Composer) -> str:
    """Return the name of the results of a command line: of one experiment, or of a grid.

    It is the name of the experiment, `grid` or `run`. A hash follows of what was typed that changes
    results. Keys typed with the value they have anyway do not count, nor do seeds that add to those
    of the experiment.
    """
    base = experiment.yaml if experiment else "grid" if typed.axes.keys() - {"seed"} else "run"
    given = {**typed.axes, **typed.values}
    plain = composer.base([f"experiment={experiment.yaml}"] if experiment else [])
    own_seeds = experiment.seeds if experiment else [plain.run({})["seed"]]
    arms = experiment.arms.values() if experiment else ()
    varied = {key for arm in arms for key in (*arm.set, *arm.swept)}

    def changes_results(key: str, value: Any) -> bool:
        if not can_change_results(key):
            return False
        if key == "seed":
            return not {*own_seeds} <= {*(value if key in typed.axes else [value])}
        if key in typed.axes or key in varied or key.startswith("experiment."):
            return True
        return not plain.says(key, value)

    changes = {key: value for key, value in given.items() if changes_results(key, value)}
    return f"{base}-{digest_of(changes)[:8]}" if changes else base
