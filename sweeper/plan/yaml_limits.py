"""Check the size of yaml files before Hydra reads them, since huge ones could fill the memory."""

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
    """Raise UserError if a yaml file in `folder` has too many values, levels or digits."""
    for path in sorted(folder.rglob("*.yaml")):
        try:
            with path.open(encoding="utf-8") as file:
                reason = _excess(yaml.parse(file, Loader=_LOADER))
        except (yaml.YAMLError, UnicodeDecodeError, OSError):
            continue  # Hydra reports a broken file if the command uses it
        if reason:
            raise UserError(f"{sanitize(path)} {reason}; correct the file.")


def _excess(events: Iterator[yaml.Event]) -> str:
    """Return which limit a file exceeds, as a phrase such as "has more than ..."; "" if none."""
    # Maps each anchor to the number of values in its node, once the node has been read completely.
    sizes: dict[str, int] = {}
    # For each collection that has not ended yet: its anchor, and the number of values before it.
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
