"""The largest difference of a metric that does not matter, as an experiment states it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sweeper.store.errors import wrong


@dataclass
class Margin:
    """What counts as no difference.

    Attributes:
        size: a number in the metric's unit as it is shown, or per cent of it ("1 %").
        reason: a sentence on why it is this large.
    """

    size: Any
    reason: str


def check_margin(where: str, given: Margin) -> None:
    """UserError if the margin under the key `where` is no size above 0, or has no reason."""
    remedy = "write for example {size: 1 %, reason: why this is small}"
    try:
        size = float(str(given.size).strip().removesuffix("%"))
    except ValueError:
        size = 0.0
    if not 0 < size < math.inf:
        expected = "a number above 0 in the metric's unit, or per cent"
        raise wrong(f"{where}, size", given.size, expected, remedy)
    if not given.reason.strip():
        raise wrong(f"{where}, reason", given.reason, "a sentence", remedy)
