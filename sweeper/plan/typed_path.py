"""A folder as a person types it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sweeper.store.errors import wrong


def typed_path(key: str, typed: Any) -> Path:
    """The folder that a key names, absolute; UserError for what names none."""
    try:
        if isinstance(typed, str) and typed:
            return Path(typed).expanduser().absolute()
    except RuntimeError:  # ~name of nobody
        pass
    raise wrong(key, typed, "a folder", "give its path")
