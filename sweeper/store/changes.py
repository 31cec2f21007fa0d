"""Find source files that changed since a run was trained.

A run depends on the training loop, on the modules of its task, architecture, attention variant and
optimizer, and on all modules in models/ and tasks/ that these import. A run whose config names a
plugin also depends on the plugin's whole package. Changes of comments, docstrings and formatting do
not count. outputs/code has copies of the code that trained runs.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeper.store import registry
from sweeper.store.code import REVISION, TRAINS, Code, differing, needed, revisions
from sweeper.store.errors import UserError
from sweeper.store.files import canonical
from sweeper.store.registry import Named
from sweeper.store.runs import Run, lineage

Files = Mapping[str, bytes]
"""The content of source files, by path: `tasks/train.py`, or `<package>/file.py` of a plugin."""
State = Mapping[str, str]
"""The digests of the source files that a run depends on, by path."""

STARTS = ("tasks/train.py", "tasks/prepare.py")
_VARIANTS = "models/attention/"
_DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def state_of_files(files: Files, named: Named) -> State | None:
    """Return the digests of the files that a run depends on.

    Return None if `files` lacks the code of a task, model or plugin that the config names.

    Args:
        files: the files of models/ and tasks/, and of the plugins that the config names.
        named: the modules that the run's config names (see `registry.named_by`).
    """
    starts = [*STARTS]
    for kind, name in named:
        own = kind.place.replace("<name>", str(name))
        packages = {path.split("/")[0] for path in registry.files_of(kind, name)}
        plugin = [path for path in files if path.split("/")[0] in packages]
        found = [own] if own in files else plugin
        # Older code lacks tasks/optimizers/, but its AdamW is in a file that is always imported. So
        # continue without the file of an optimizer.
        if not found and kind is not registry.OPTIMIZERS:
            return None
        starts += found
    return state_of_imports(files, starts)


def state_of_imports(files: Files, starts: Iterable[str]) -> State:
    """Return the digests of the files `starts`, and of all files that they import, also indirectly.

    Skip paths that are not in `files`.
    """
    waiting, found = [*starts], dict[str, str]()
    while waiting:
        path = waiting.pop()
        if path in found or path not in files or not path.endswith(".py"):
            continue
        found[path], imports = _parsed(files[path])
        waiting += _imported(path, imports)
    return found


Imports = Sequence[tuple[int, str]]
"""The imports of a source file, such as (2, "mask.build") for `from ..mask import build`."""


@functools.cache  # different versions of the code share most files
def _parsed(source: bytes) -> tuple[str, Imports]:
    """Return a digest of a source file, and its imports.

    The digest is that of the syntax tree without docstrings.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return hashlib.sha256(source).hexdigest(), ()
    imports: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports += [
                (node.level, f"{node.module or ''}.{alias.name}")
                for alias in node.names
            ]
        elif (
            isinstance(node, _DEFINITIONS)
            and ast.get_docstring(node, clean=False) is not None
        ):
            del node.body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), imports


def _imported(importer: str, imports: Imports) -> Iterator[str]:
    """Yield the paths in models/ and tasks/ that the imports of the file `importer` may mean.

    Some do not exist: `from models.mask import x` may mean a file models/mask/x.py or a function.
    """
    for level, name in imports:
        package = importer.split("/")[:-level] if level else []
        parts = [*package, *filter(None, name.split("."))]
        if parts[0] not in TRAINS:
            continue
        for length in range(1, len(parts) + 1):
            module = "/".join(parts[:length])
            yield f"{module}/__init__.py"
            # Code outside models/attention/ imports variants only to convert their weights. So
            # follow the import of a variant only from another variant.
            private = module.removeprefix(_VARIANTS).startswith("_")
            variant = module.startswith(_VARIANTS)
            if private or not variant or importer.startswith(_VARIANTS):
                yield f"{module}.py"


@dataclass(frozen=True)
class _Copy:
    """A copy of the code in outputs/code.

    Attributes:
        files: the content of the files, by path.
        parts: the digest of each part of the code (see code.py).
        plugins: the digest of each plugin in the copy.
    """

    files: Files
    parts: Mapping[str, str]
    plugins: frozenset[str]

    def trained(self, attempt: Mapping[str, Any]) -> bool:
        """Return whether this code trained an attempt. `attempt`: the content of attempt.json."""
        parts = attempt["code_parts"].items()
        own = {one for one in parts if not one[0].startswith("package ")}
        plugins = {one["sha256"] for one in attempt.get("packages", [])}
        return own <= self.parts.items() and plugins <= self.plugins


@functools.cache  # the name of a folder is the digest of its files, so the files never change
def _copy(folder: Path) -> _Copy:
    paths = [path for path in sorted(folder.rglob("*.py")) if path.is_file()]
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    by_package: dict[str, dict[str, bytes]] = {}
    for path, source in files.items():
        by_package.setdefault(path.partition("/")[0], {})[path] = source
    plugins = [
        registry.digest_of_source(own)
        for package, own in by_package.items()
        if package not in (*TRAINS, "sweeper")
    ]
    return _Copy(files, Code(folder, files).parts(), frozenset(plugins))


@dataclass
class TrainedCode:
    """A cached reader of the code that trained the runs of an outputs folder."""

    outputs: Path
    _states: dict[str, State | None] = field(default_factory=dict)

    def states(
        self, config: Mapping[str, Any], attempts: Iterable[Mapping[str, Any]]
    ) -> list[State | None]:
        """Return the State of each attempt's code.

        If outputs/code lacks the code of an attempt, the list has None for this attempt.
        """
        named = registry.named_by(config)
        return [self._state(named, attempt) for attempt in attempts]

    def _state(self, named: Named, attempt: Mapping[str, Any]) -> State | None:
        recorded = [attempt.get(key) for key in ("code", "code_parts", "packages")]
        key = canonical([named, recorded])
        if key not in self._states:
            files = self._files(attempt)
            self._states[key] = None if files is None else state_of_files(files, named)
        return self._states[key]

    def _files(self, attempt: Mapping[str, Any]) -> Files | None:
        if not attempt.get("code_parts"):
            return None
        for marker in sorted(self.outputs.glob(f"code/*/{REVISION}")):
            folder = marker.parent
            if attempt.get("code") in revisions(folder):
                copy = _copy(folder)
                if copy.trained(attempt):
                    return copy.files
        return None


@functools.cache
def _recorded(code: Code, named: Named) -> Mapping[str, Any]:
    return code.recorded(named)


@functools.cache
def _state(code: Code, named: Named) -> State | None:
    return state_of_files(needed(code, named), named)


class Changes:
    """The differences between the current code and the code that trained the runs in `outputs`.

    Attributes:
        code: the current code.
    """

    def __init__(self, outputs: Path, code: Code) -> None:
        self._trained = TrainedCode(outputs)
        self.code = code

    def since(self, run: Run, attempt: int) -> list[str] | None:
        """Return the files that changed since an attempt was trained, or None if unknown.

        If the attempt resumed from earlier attempts, compare the code of all of them.
        """
        try:
            config, attempts = run.record().config, lineage(run, attempt)
        except UserError:
            return None  # tables and `status` report the damaged file

        named = registry.named_by(config)
        parts = _recorded(self.code, named)["code_parts"]
        if all(one.get("code_parts") == parts for one in attempts):
            return []
        states = [*self._trained.states(config, attempts), _state(self.code, named)]
        known = [state for state in states if state is not None]
        return differing(known) if len(known) == len(states) else None
