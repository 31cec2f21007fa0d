"""The largest difference of a metric that does not matter, as an experiment states it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweeper.store.errors import wrong


@dataclass(frozen=True)
class Margin:
    """The largest difference of a metric that does not matter.

    Attributes:
        size: a number in the metric's unit as it is shown, or per cent of it ("1 %").
        reason: a sentence on why it is this large.
    """

    size: float | str
    reason: str


def read_margin(where: str, given: Any) -> Margin:
    """The margin under the key `where`, from yaml; UserError for anything else."""
    remedy = "write for example {size: 1 %, reason: why this is small}"
    if not isinstance(given, Mapping) or {*given} != {"size", "reason"} or not given["reason"]:
        raise wrong(where, given, "a size and a reason", remedy)
    text = str(given["size"]).strip()
    try:
        size = float(text.removesuffix("%"))
    except ValueError:
        size = 0.0
    if isinstance(given["size"], bool) or not 0 < size < math.inf:
        expected = "a number above 0 in the metric's unit, or per cent"
        raise wrong(f"{where}.size", given["size"], expected, remedy)
    return Margin(text if text.endswith("%") else size, str(given["reason"]))
