"""Finds a claim or a figure by its name: one file each, and no list of them anywhere."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from sweeper.store.errors import wrong


def names(package: ModuleType, function: str) -> list[str]:
    """The modules of `package` that have `function`."""
    found = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return [name for name in found if hasattr(_module(package, name), function)]


def named(package: ModuleType, name: str, function: str, key: str) -> Callable[..., Any]:
    """`function` of the module `name` in `package`.

    A name is data: it is compared with the files that are there, never imported as it is.

    Raises:
        UserError: no such module; `key` says where the name was given.
    """
    known = names(package, function)
    if name not in known:
        remedy = f"choose one of them or add {package.__name__.replace('.', '/')}/<name>.py"
        raise wrong(key, name, f"one of {', '.join(known)}", remedy)
    found: Callable[..., Any] = getattr(_module(package, name), function)
    return found


def _module(package: ModuleType, name: str) -> ModuleType:
    return import_module(f"{package.__name__}.{name}")
