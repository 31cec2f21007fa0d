"""From arms to points: every combination of an arm's values that its condition admits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from sweeper.plan.experiment import Arm
from sweeper.store.errors import UserError


def count(arm: Arm) -> int:
    """How many combinations `combinations` yields, without making them."""
    return math.prod(len(values) for values in arm.grid.values())


def combinations(arm: Arm) -> Iterator[dict[str, Any]]:
    """Every combination of the arm's grid, the last key varying fastest, equal ones once."""
    seen = set()
    for values in itertools.product(*arm.grid.values()):
        if (mark := repr(values)) not in seen:
            seen.add(mark)
            yield dict(zip(arm.grid, values, strict=True))


def check_size(points: int, limit: int, what: str) -> None:
    """Refuse a grid that is too large before it is expanded.

    Raises:
        UserError: more than `limit` points.
    """
    if points > limit:
        raise UserError(
            f"{what} has {points:,} points, more than hydra.sweeper.max_runs={limit:,}; "
            "sweep fewer values or raise hydra.sweeper.max_runs."
        )


def shown(values: Mapping[str, Any]) -> str:
    """A point in words: `heads=8 head_size=32`, keys without their section."""
    return " ".join(f"{key.rpartition('.')[2]}={_word(value)}" for key, value in values.items())


def _word(value: Any) -> str:
    return "null" if value is None else str(value)
