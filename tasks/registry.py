"""Finds what a config may name: each task and each architecture is one file of this folder."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from sweeper.store.errors import wrong
from tasks.schema import spelled

FOLDER = Path(__file__).parent


@functools.cache  # asked of every config of a sweep; files do not come and go meanwhile
def names(base: type) -> tuple[str, ...]:
    """Return the files of this folder that define a subclass whose last base is `base`, in order.

    They are told by their source, so that listing them imports none of them.
    """
    mark = re.compile(rf"^class \w+\((\w+, )*{base.__name__}\):", re.MULTILINE)
    files = FOLDER.glob("*.py")
    return tuple(sorted(path.stem for path in files if mark.search(path.read_text("utf-8"))))


def find(key: str, name: Any, base: type) -> type:
    """Return the subclass of `base` in `tasks/<name>.py`; a name that is none is a UserError."""
    known = names(base)
    if name not in known:
        expected, remedy = f"one of {', '.join(known)}", f"give it as {key}={known[0]}"
        raise wrong(key, spelled(name), expected, remedy)
    module = importlib.import_module(f"tasks.{name}")
    classes = [
        member
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, base)
        and member is not base
        and member.__module__ == module.__name__
    ]
    assert len(classes) == 1, f"tasks/{name}.py must define exactly one {base.__name__}"
    return classes[0]
