"""Limits on the size of yaml files, checked before Hydra reads them."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from sweeper.store.errors import UserError, sanitize

MOST_VALUES = 100_000  # an alias counts as all values of its anchor
DEEPEST = 50  # levels of nesting
LONGEST_NUMBER = 300  # digits

# Besides decimal numbers, YAML has hexadecimal, octal and binary ones, and base 60 (1:59:59).
_NUMBER = re.compile(r"(0[xob])?[\da-fA-F:.]+")

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def check_yaml(folder: Path) -> None:
    """Raise UserError for a yaml file below `folder` with too many values or levels."""
    for path in sorted(folder.rglob("*.yaml")):
        try:
            with path.open(encoding="utf-8") as file:
                reason = _excess(yaml.parse(file, Loader=_LOADER))
        except (yaml.YAMLError, UnicodeDecodeError, OSError):
            continue  # if the command uses the broken file, Hydra reports it
        if reason:
            raise UserError(f"{sanitize(path)} {reason}; correct the file.")


def _excess(events: Iterator[yaml.Event]) -> str:
    """Return a phrase that says which limit a file exceeds, or "" if it exceeds none."""
    # For each anchor whose node has been read completely, the number of values in the node.
    sizes: dict[str, int] = {}
    # For each open collection, its anchor and the number of values before it.
    starts: list[tuple[str | None, int]] = []
    values = 0
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = starts.pop()
            if anchor:
                sizes[anchor] = values - before
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                return f"has an alias *{sanitize(event.anchor)} inside its own anchor"
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
            return f"has more than {MOST_VALUES:,} values with its aliases expanded"
        if len(starts) > DEEPEST:
            return f"is nested more than {DEEPEST} levels deep"
    return ""
