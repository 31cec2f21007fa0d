"""Turns what pydantic finds wrong with a config into the problem a person can act on."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo

from tasks.config.schema import Problem, Section, spelled


def problem(schema: type[Section], error: Mapping[str, Any]) -> Problem:
    """Return the problem behind one entry of `ValidationError.errors()`."""
    section, keys, field = _locate(schema, tuple(error["loc"]))
    path = ".".join(keys)
    if error["type"] == "extra_forbidden":
        return _unknown(section, keys, error["input"])
    assert field is not None, f"{path} is in the schema"
    expected = field.description or f"a group of keys ({', '.join(section.model_fields)})"
    value = "(missing)" if error["type"] == "missing" else spelled(error["input"])
    return Problem(path, value, expected, _remedy(path, field))


def _locate(
    schema: type[Section], place: tuple[Any, ...]
) -> tuple[type[Section], list[str], FieldInfo | None]:
    """Follow an error's place down the sections; what is wrong within a value is the value's."""
    section, keys, field = schema, [], None
    for key in place:
        keys.append(str(key))
        field = section.model_fields.get(str(key))
        if field is None or not _is_section(field.annotation):
            break
        section = field.annotation  # type: ignore[assignment]
    return section, keys, field


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _unknown(section: type[Section], keys: list[str], value: Any) -> Problem:
    *parents, key = keys
    near = difflib.get_close_matches(key, section.model_fields, n=1)
    expected = f"one of the keys {', '.join(section.model_fields)}"
    remedy = f"write {'.'.join([*parents, near[0]])}" if near else "leave it out"
    return Problem(".".join(keys), spelled(value), expected, remedy)


def _remedy(path: str, field: FieldInfo) -> str:
    if not field.examples:
        return f"choose one of conf/{path}"
    return f"give it as {path}={spelled(field.examples[0])}"
