"""Limits on yaml files, checked before Hydra builds anything from them."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from sweeper.store.errors import UserError, sanitize

MOST_VALUES = 100_000  # with aliases replaced by what they stand for
DEEPEST = 50
LONGEST_NUMBER = 300  # digits

# Yaml also has numbers in hexadecimal, octal and binary, and in base 60, as 1:59:59.
_NUMBER = re.compile(r"(0[xob])?[\da-fA-F:.]+")

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def check_yaml(folder: Path) -> None:
    """Raise UserError for a yaml file below `folder` that is too large or too deep to build."""
    for path in sorted(folder.rglob("*.yaml")):
        try:
            with path.open(encoding="utf-8") as file:
                reason = _excess(yaml.parse(file, Loader=_LOADER))
        except (yaml.YAMLError, UnicodeDecodeError, OSError):
            continue  # Hydra reports it if the file is chosen
        if reason:
            raise UserError(f"{sanitize(path)} {reason}; make it smaller.")


def _excess(events: Iterator[yaml.Event]) -> str:
    """Return which limit the events of a file exceed; empty if none."""
    sizes: dict[str, int] = {}  # by anchor, once its node has ended
    starts: list[tuple[str | None, int]] = []  # of the open collections: anchor, values before
    values = 0
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = starts.pop()
            if anchor:
                sizes[anchor] = values - before
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                return f"has an alias *{sanitize(event.anchor)} inside of what it stands for"
            values += sizes[event.anchor]
        elif isinstance(event, yaml.NodeEvent):
            values += 1
            if isinstance(event, yaml.CollectionStartEvent):
                starts.append((event.anchor, values - 1))
            elif event.anchor:
                sizes[event.anchor] = 1
        if isinstance(event, yaml.ScalarEvent):
            digits = event.value.lstrip("+-").replace("_", "")
            if len(digits) > LONGEST_NUMBER and _NUMBER.fullmatch(digits):
                return f"has a number of {len(digits):,} digits, more than {LONGEST_NUMBER}"
        if values > MOST_VALUES:
            return f"has more than {MOST_VALUES:,} values, counting what aliases stand for"
        if len(starts) > DEEPEST:
            return f"is nested more than {DEEPEST} levels deep"
    return ""
