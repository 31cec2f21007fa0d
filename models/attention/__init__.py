"""The attention variants: every module of this package defines one, found by its file name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from torch import nn


def variants() -> list[str]:
    """Return the names of all attention variants, in alphabetical order."""
    return sorted(
        module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")
    )


def variant(name: str) -> type[nn.Module]:
    """Return the attention class that `models/attention/<name>.py` defines.

    It is built as `cls(embedding_size, heads, head_size, *, bias=False, dropout=0.0, **options)`
    and called as `attention(x_BTD, mask_B1TT) -> x_BTD`. A name that is not in `variants()`, or a
    file that does not define exactly one public module, is a ValueError.
    """
    if name not in variants():
        raise ValueError(
            f"attention variant {name!r} does not exist; there are: {', '.join(variants())}"
        )
    module = importlib.import_module(f"{__name__}.{name}")
    classes = [
        member
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, nn.Module)
        and member.__module__ == module.__name__
        and not member.__name__.startswith("_")
    ]
    if len(classes) != 1:
        found = ", ".join(member.__name__ for member in classes) or "none"
        raise ValueError(
            f"{module.__name__} must define exactly one public nn.Module, it defines: {found}"
        )
    return classes[0]
