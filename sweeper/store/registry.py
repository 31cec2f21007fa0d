"""The registry of tasks, models, figures and other modules that a config can name.

Headroom has its own modules of each kind. A plugin registers a module as an entry point:

    [project.entry-points."headroom.attention"]     # in the plugin's pyproject.toml
    gated = "my_package.gated"                      # a module like those in models/attention

A config can name only registered modules. No other module is imported.
"""

import functools
import hashlib
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import Distribution, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.identity import INTRODUCED_AS
from sweeper.store.importing import import_apart

ROOT = Path(__file__).resolve().parents[2]


class Kind(NamedTuple):
    """A kind of module that a config can name.

    Attributes:
        word: what messages call such a module, such as "attention variant".
        group: the entry point group for plugins.
        place: where Headroom has its own modules of this kind. `<name>` stands for the name in a
            config. In "tasks/<name>/task.py", it is the name of a folder. In
            "sweeper/results/claims.py:<name>", it is the name of a function in the file.
    """

    word: str
    group: str
    place: str


TASKS = Kind("task", "headroom.tasks", "tasks/<name>/task.py")
ARCHITECTURES = Kind(
    "architecture", "headroom.architectures", "tasks/architectures/<name>.py"
)
ATTENTION = Kind(
    "attention variant", "headroom.attention", "models/attention/<name>.py"
)
OPTIMIZERS = Kind("optimizer", "headroom.optimizers", "tasks/optimizers/<name>.py")
FIGURES = Kind("figure", "headroom.figures", "sweeper/results/figures/<name>.py")
CLAIMS = Kind("claim", "headroom.claims", "sweeper/results/claims.py:<name>")
BACKENDS = Kind("backend", "headroom.backends", "sweeper/run/backends/<name>.py")
Named = tuple[tuple[Kind, Any], ...]
"""A (kind, name) pair for each module that a config names."""

CONF = "headroom.conf"
"""The entry point group for a plugin's config folder, which has the same subfolders as conf/."""


_FUNCTION = re.compile(r"^def ([a-z]\w*)", re.MULTILINE)


class _Found(NamedTuple):
    module: str
    package: Distribution | None  # the plugin's package; None for modules of Headroom

    @property
    def owner(self) -> str:
        return f"the package {self.package.name}" if self.package else "Headroom"


def names(kind: Kind) -> list[str]:
    """Return the sorted names of all modules of a kind, without importing them.

    Raise UserError if two modules have the same name.
    """
    return sorted(_registered(kind))


def check(kind: Kind, name: Any, key: str) -> None:
    """Raise UserError if `name`, the value of `key`, is not registered. Import nothing."""
    known = names(kind)
    if name not in known:
        remedy = f"choose one of these, install a plugin with this {kind.word}, or add {kind.place}"
        raise invalid_value(key, name, f"one of {', '.join(known)}", remedy)


def function(kind: Kind, name: Any, key: str, called: str) -> Callable[..., Any]:
    """Return a function of a registered module.

    Args:
        kind: the kind of the module.
        name: the registered name.
        key: the config key whose value is `name`, for messages.
        called: the name of the function to return. If the module has no such function, return its
            function `name`.

    Raises:
        UserError: the name is not registered, or the module has neither function.
    """
    module = _module(kind, name, key)
    found: Callable[..., Any] | None = vars(module).get(called) or vars(module).get(
        name
    )
    if not callable(found):
        raise _unlike(kind, name, f"a function {called}", "none")
    return found


def class_of(kind: Kind, name: Any, key: str, base: type) -> type:
    """Return the public subclass of `base` that a registered module defines.

    Raise UserError if `name`, the value of `key`, is not registered, or if the module does not
    define exactly one such class.
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
    """Return a description of the plugin that registers a name.

    Example: {"name": "attention variant gated", "package": "my-package", "version": "1.0",
    "sha256": "<digest of the package's Python files>"}. Return {} if `name` is unknown or belongs
    to Headroom itself.
    """
    plugin = _plugin(kind, name)
    if plugin is None:
        return {}
    module, package = plugin
    return {
        "name": f"{kind.word} {name}",
        "package": package.name,
        "version": package.version,
        "sha256": _digest(module),
    }


def digest_of_source(files: Mapping[str, bytes]) -> str:
    """Return the sha256 of source files. `files` maps each path to the content of the file."""
    digest = hashlib.sha256()
    for name, source in sorted(files.items()):
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()


def named_by(config: Mapping[str, Any]) -> Named:
    """Return a (kind, name) pair for each registered module that a config's training uses."""
    default = INTRODUCED_AS["optimizer.name"]  # older records lack this key
    attention = config["model"].get("attention")
    return (
        (TASKS, config["task"]["name"]),
        (ARCHITECTURES, config["model"]["name"]),
        *([(ATTENTION, attention["name"])] if attention else []),
        (OPTIMIZERS, config["optimizer"].get("name", default)),
    )


def files_of(kind: Kind, name: Any) -> dict[str, bytes]:
    """Return the content of a plugin's source and metadata files, by path.

    The plugin is the one that registers `name`. Return {} if `name` belongs to Headroom itself.
    """
    plugin = _plugin(kind, name)
    if plugin is None:
        return {}
    module, package = plugin
    # Name the metadata folder as installers do. Otherwise importlib.metadata would count the copy
    # and the installed package as two packages.
    about = f"{re.sub(r'[-_.]+', '_', package.name)}-{package.version}.dist-info"
    files = {name: path.read_bytes() for name, path in _source(module).items()}
    for metadata in ("METADATA", "entry_points.txt"):
        if text := package.read_text(metadata):
            files[f"{about}/{metadata}"] = text.encode()
    return files


def folders_of_conf() -> dict[str, Path]:
    """Return the config folders of plugins, by registered name.

    Raise UserError if a plugin and conf/ have a file of the same name. Hydra would ignore one of
    the two files.
    """
    found = {}
    for entry in sorted(entry_points(group=CONF)):
        for folder in _folders(entry.value):
            found[entry.name] = folder
            for path in folder.rglob("*.yaml"):
                name = path.relative_to(folder)
                if (ROOT / "conf" / name).exists():
                    raise UserError(
                        f"The plugin {entry.name} ({entry.value}) and Headroom's folder conf/ "
                        f"both have a file {name}; rename the plugin's file, or uninstall the "
                        "plugin."
                    )
    return found


@functools.cache  # a sweep calls this for every config
def _registered(kind: Kind) -> dict[str, _Found]:
    outside = sorted(entry_points(group=kind.group))
    found: dict[str, _Found] = {}
    for name, one in (
        *((name, _Found(module, None)) for name, module in _own(kind.place)),
        *((entry.name, _Found(entry.value, entry.dist)) for entry in outside),
    ):
        if name in found:
            raise UserError(
                f"{kind.word} {name}: {found[name].owner} and {one.owner} both register this "
                f"name; rename a package's entry point in {kind.group}, or uninstall the package."
            )
        found[name] = one
    return found


def _plugin(kind: Kind, name: Any) -> tuple[str, Distribution] | None:
    """Return the module and the package of the plugin that registers a name, or None."""
    found = _registered(kind).get(name)
    if found is None or found.package is None:
        return None
    return found.module, found.package


def _own(place: str) -> Iterator[tuple[str, str]]:
    """Yield (name, module) pairs for the modules of Headroom at `place`, such as:

    - ("lm1b", "tasks.lm1b.task") if `place` is "tasks/<name>/task.py".
    - (<name of a public function>, "sweeper.results.claims") for each public function, if `place`
      is "sweeper/results/claims.py:<name>".
    """
    path, _, functions = place.partition(":")
    if functions:
        module = path.removesuffix(".py").replace("/", ".")
        for name in _FUNCTION.findall((ROOT / path).read_text("utf-8")):
            yield name, module
        return
    where = next(
        index for index, part in enumerate(place.split("/")) if "<name>" in part
    )
    for found in sorted(ROOT.glob(place.replace("<name>", "[!_]*"))):
        parts = found.relative_to(ROOT).with_suffix("").parts
        yield parts[where], ".".join(parts)


def _module(kind: Kind, name: Any, key: str) -> ModuleType:
    check(kind, name, key)
    found = _registered(kind)[name]
    load = import_apart if found.package else importlib.import_module
    try:
        return load(found.module)
    except ImportError as error:
        raise UserError(
            f"{kind.word} {name}: the module {found.module} of {found.owner} cannot be imported "
            f"({sanitize(error)}); repair the module, or uninstall the package."
        ) from error


def _unlike(kind: Kind, name: str, expected: str, found: str) -> UserError:
    module, _ = _registered(kind)[name]
    return UserError(
        f"{kind.word} {name}: expected {expected} in {module}, found {found}; "
        "CONTRIBUTING.md describes what to write."
    )


@functools.cache
def _digest(module: str) -> str:
    """Return the sha256 of all Python files in the top-level package of a module."""
    paths = _source(module).items()
    return digest_of_source(
        {name: path.read_bytes() for name, path in paths if path.suffix == ".py"}
    )


def _source(module: str) -> dict[str, Path]:
    """Return the files in the top-level package of a module, by name, such as `package/file.py`."""
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
    """Return the folders of a package or subpackage without importing it or its parents."""
    top, *parts = package.split(".")
    spec = importlib.util.find_spec(top)
    return [
        Path(one, *parts) for one in (spec and spec.submodule_search_locations) or ()
    ]
