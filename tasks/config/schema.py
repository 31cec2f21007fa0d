"""The words the parts of a config are written in: sections, the kinds of their values, problems.

A task, a model and an attention variant each own a section; `tasks.parse` puts them together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field


class Problem(NamedTuple):
    """A value that no run can have: where it stands, what was expected there, what to do."""

    key: str
    value: Any
    expected: str
    remedy: str


class Section(BaseModel):
    """A group of keys. Nothing unknown is accepted, nothing is converted: "4" is not a number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    def problems(self, path: str) -> Iterator[Problem]:
        """Yield what is wrong between keys that are each right; `path` is the section's own key."""
        yield from ()


def whole(least: int, most: int, example: int) -> Any:
    """Return the field of a whole number from `least` to `most`."""
    expected = f"a whole number from {least} to {most}"
    return Field(ge=least, le=most, description=expected, examples=[example])


def given(expected: str, example: Any, **limits: Any) -> Any:
    """Return the field of any other value; `limits` are those of pydantic's Field."""
    return Field(description=expected, examples=[example], **limits)


def spelled(value: Any) -> str:
    """Return a value as the command line writes it, quoting words that look like another type."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str) and re.fullmatch(r"[-+.0-9eE_]+|true|false|null|", value):
        return f'"{value}"'
    return str(value)
