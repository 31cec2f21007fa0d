"""Whether what a file holds has the shape that whoever reads it takes for granted."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

Shape = Any
"""A class, or a pattern of a text; {key: shape}, where a key may be absent, or {str: shape} for
every key; [shape] for every entry; a tuple for any of these, None among them for null."""

NUMBER = (int, float)
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # a name that may become a path


def validate(value: Any, shape: Shape, place: str = "it") -> str:
    """Where `value` is not of `shape`, in words; empty if it is."""
    if isinstance(shape, tuple):
        found = [validate(value, one, place) for one in shape]
        return "" if "" in found else found[0]
    if isinstance(shape, re.Pattern):
        fits = isinstance(value, str) and bool(shape.fullmatch(value))
    elif isinstance(shape, dict | list):
        fits = isinstance(value, type(shape))
    else:
        fits = value is None if shape is None else isinstance(value, shape)
    if not fits:
        return f"{place} is not what it should be"
    below = _below(value, shape, place) if isinstance(shape, dict | list) else ()
    return next(filter(None, (validate(*one) for one in below)), "")


def _below(value: Any, shape: Any, place: str) -> Iterator[tuple[Any, Shape, str]]:
    if isinstance(shape, list):
        yield from ((entry, shape[0], f"{place}[{n}]") for n, entry in enumerate(value))
    elif str in shape:
        yield from ((entry, shape[str], f"{place}.{key}") for key, entry in value.items())
    else:
        known = value.keys() & shape.keys()
        yield from ((value[key], shape[key], f"{place}.{key}") for key in sorted(known))


def parse_integer(digits: str) -> int:
    """A whole number of JSON; ValueError for one that no float comes near."""
    if len(digits) > 300:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def parse_float(digits: str) -> float:
    """A fraction of JSON; ValueError for one that only infinity comes near."""
    if math.isinf(number := float(digits)):
        raise ValueError(f"{digits} is beyond all numbers")
    return number
