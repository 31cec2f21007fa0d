"""Finds what a config names: files of this program first, then what installed packages register.

Of each kind there is a place among our own files, and a group of entry points for everybody else's:

    [project.entry-points."headroom.attention"]     # in the pyproject.toml of one's own package
    gated = "my_package.gated"                      # a module, written as a file of ours would be

A name is data: it is compared with what is there, and never imported as it was typed.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import Distribution, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from sweeper.store.errors import UserError, invalid_value

ROOT = Path(__file__).resolve().parents[2]


class Kind(NamedTuple):
    """What is found by name: the word for one, its group of entry points, where our own lie."""

    word: str
    group: str
    place: str


TASKS = Kind("task", "headroom.tasks", "tasks/<name>/task.py")
ARCHITECTURES = Kind("architecture", "headroom.architectures", "tasks/architectures/<name>.py")
ATTENTION = Kind("attention variant", "headroom.attention", "models/attention/<name>.py")
FIGURES = Kind("figure", "headroom.figures", "sweeper/results/figures/<name>.py")
CLAIMS = Kind("claim", "headroom.claims", "sweeper/results/claims/<name>.py")
BACKENDS = Kind("backend", "headroom.backends", "sweeper/run/backends/<name>.py")
CONF = "headroom.conf"
"""The group of folders of yaml: each lies in an importable package and is laid out as conf/ is."""


class _Found(NamedTuple):
    module: str
    package: Distribution | None  # None: our own

    @property
    def owner(self) -> str:
        return f"the package {self.package.name}" if self.package else "this program"


def names(kind: Kind) -> list[str]:
    """The names that there are of a kind, in alphabetical order; nothing is imported.

    Raises:
        UserError: a name stands for two things.
    """
    return sorted(_registered(kind))


def check(kind: Kind, name: Any, key: str) -> None:
    """UserError if a name stands for nothing; `key` is where it was given. Nothing is imported."""
    known = names(kind)
    if name not in known:
        typed = name if isinstance(name, str) else json.dumps(name, default=str)
        remedy = f"choose one of them or add {kind.place}"
        raise invalid_value(key, typed, f"one of {', '.join(known)}", remedy)


def function(kind: Kind, name: Any, key: str, called: str) -> Callable[..., Any]:
    """The function `called` of the module that a name stands for; `key` is where it was given.

    Raises:
        UserError: no such name, or the module is not what its kind has to be.
    """
    module = _module(kind, name, key)
    found: Callable[..., Any] | None = vars(module).get(called)
    if not callable(found):
        raise _unlike(kind, name, f"a function {called}", "none")
    return found


def class_of(kind: Kind, name: Any, key: str, base: type) -> type:
    """The one public class derived from `base` in the module that a name stands for.

    Raises:
        UserError: no such name, or the module is not what its kind has to be.
    """
    module = _module(kind, name, key)
    classes = [
        member
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, base)
        and member.__module__ == module.__name__
        and not member.__name__.startswith("_")
    ]
    if len(classes) != 1:
        found = ", ".join(member.__name__ for member in classes) or "none"
        raise _unlike(kind, name, f"exactly one public {base.__name__}", found)
    return classes[0]


def made_of(kind: Kind, name: Any) -> dict[str, str]:
    """The package that an outside thing comes from, its version, and the sha256 of its source.

    Empty for what is our own or not there: ours is described by the version of the program.
    """
    found = _registered(kind).get(name) if isinstance(name, str) else None
    if found is None or found.package is None:
        return {}
    return {
        "name": f"{kind.word} {name}",
        "package": found.package.name,
        "version": found.package.version,
        "sha256": _digest(found.module),
    }


def named_by(config: Mapping[str, Any]) -> list[tuple[Kind, Any]]:
    """What a run's config names of what its training is made of."""
    return [
        (TASKS, config["task"]["name"]),
        (ARCHITECTURES, config["model"]["name"]),
        (ATTENTION, config["model"]["attention"]["name"]),
    ]


def files_of(kind: Kind, name: Any) -> dict[str, Path | bytes]:
    """The files of the package that an outside thing comes from: source, and what registers it.

    They are named from a folder of the search path; empty for what is our own.
    """
    found = _registered(kind).get(name)
    if found is None or found.package is None:
        return {}
    about = f"{found.package.name}-{found.package.version}.dist-info"
    told = {one: found.package.read_text(one) for one in ("METADATA", "entry_points.txt")}
    return {f"{about}/{one}": text.encode() for one, text in told.items() if text} | _source(
        found.module
    )


def folders_of_conf() -> dict[str, Path]:
    """The folders of yaml that installed packages add, by the name each registers its own under.

    Raises:
        UserError: one has a file that conf/ has too, so that one of the two would not be read.
    """
    found = {}
    for entry in sorted(entry_points(group=CONF)):
        for folder in _folders(entry.value):
            for path in sorted(folder.rglob("*.yaml")):
                if (ROOT / "conf" / (name := path.relative_to(folder))).exists():
                    raise UserError(
                        f"{name} of the package {entry.dist and entry.dist.name}: conf/ has a file "
                        "of that name; rename it in the package, or uninstall that."
                    )
            found[entry.name] = folder
    return found


@functools.cache  # asked of every config of a sweep; nothing comes or goes meanwhile
def _registered(kind: Kind) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    for name, one in (*_own(kind), *_outside(kind)):
        if name in found:
            raise UserError(
                f"{kind.word} {name}: {found[name].owner} and {one.owner} both have one of that "
                f"name; rename it in {kind.group} of the package, or uninstall that."
            )
        found[name] = one
    return found


def _own(kind: Kind) -> Iterator[tuple[str, _Found]]:
    where = next(index for index, part in enumerate(kind.place.split("/")) if "<name>" in part)
    for path in sorted(ROOT.glob(kind.place.replace("<name>", "[!_]*"))):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield parts[where], _Found(".".join(parts), None)


def _outside(kind: Kind) -> Iterator[tuple[str, _Found]]:
    for entry in sorted(entry_points(group=kind.group)):
        yield entry.name, _Found(entry.value, entry.dist)


def _module(kind: Kind, name: Any, key: str) -> ModuleType:
    check(kind, name, key)
    found = _registered(kind)[name]
    try:
        return importlib.import_module(found.module)
    except ImportError as error:
        raise UserError(
            f"{kind.word} {name}: its module {found.module}, of {found.owner}, cannot be imported "
            f"({error}); mend it, or uninstall the package."
        ) from error


def _unlike(kind: Kind, name: str, expected: str, found: str) -> UserError:
    module, _ = _registered(kind)[name]
    return UserError(
        f"{kind.word} {name}: expected {expected} in {module}, but there is {found}; "
        "CONTRIBUTING.md says what one is."
    )


@functools.cache
def _digest(module: str) -> str:
    """The sha256 of all Python source of the package that a module belongs to."""
    digest = hashlib.sha256()
    for name, path in sorted(_source(module).items()):
        if path.suffix == ".py":
            source = path.read_bytes()
            digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()


def _source(module: str) -> dict[str, Path]:
    """The files of the package that a module belongs to, by their names from the search path."""
    top = module.partition(".")[0]
    found = {
        path.relative_to(folder.parent).as_posix(): path
        for folder in _folders(top)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    if not found and (spec := importlib.util.find_spec(top)) and spec.origin:
        found = {Path(spec.origin).name: Path(spec.origin)}
    return found


def _folders(package: str) -> list[Path]:
    """The folders of a package or of a part of it; its parents are not imported."""
    top, *parts = package.split(".")
    spec = importlib.util.find_spec(top)
    return [Path(one, *parts) for one in (spec and spec.submodule_search_locations) or ()]
