"""Finds what a config may name: each task and each architecture is one file of this folder."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from sweeper.store.errors import wrong
from tasks.config.schema import spelled

FOLDER = Path(__file__).parent
PLACES = ("*/task.py", "architectures/*.py")


@functools.cache  # asked of every config of a sweep; files do not come and go meanwhile
def _modules(base: type) -> dict[str, str]:
    """Return the modules that define a subclass whose last base is `base`, by the name of each.

    They are told by their source, so that listing them imports none of them.
    """
    mark = re.compile(rf"^class \w+\((\w+, )*{base.__name__}\):", re.MULTILINE)
    found = {}
    for path in sorted(file for place in PLACES for file in FOLDER.glob(place)):
        if mark.search(path.read_text("utf-8")):
            name = path.parent.name if path.stem == "task" else path.stem
            found[name] = ".".join(("tasks", *path.relative_to(FOLDER).with_suffix("").parts))
    return dict(sorted(found.items()))


def names(base: type) -> tuple[str, ...]:
    """Return the names of the subclasses of `base` that are there, in alphabetical order."""
    return tuple(_modules(base))


def find(key: str, name: Any, base: type) -> type:
    """Return the subclass of `base` of that name; a name that is none is a UserError."""
    known = names(base)
    if name not in known:
        expected, remedy = f"one of {', '.join(known)}", f"give it as {key}={known[0]}"
        raise wrong(key, spelled(name), expected, remedy)
    module = importlib.import_module(_modules(base)[name])
    classes = [
        member
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, base)
        and member is not base
        and member.__module__ == module.__name__
    ]
    assert len(classes) == 1, f"{module.__name__} must define exactly one {base.__name__}"
    return classes[0]
