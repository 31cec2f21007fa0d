"""From arms to points: every combination of an arm's values that its condition admits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from sweeper.plan.experiment import Arm
from sweeper.store.errors import UserError, wrong


def count(arm: Arm) -> int:
    """How many combinations `combinations` yields, without making them."""
    return math.prod(len(values) for values in arm.grid.values())


def combinations(arm: Arm) -> Iterator[dict[str, Any]]:
    """Every combination of the arm's grid, the last axis varying fastest, equal ones once.

    An axis may move several keys together: `model.heads,model.layers: [[8, 2], [9, 3]]`.
    """
    seen = set()
    for values in itertools.product(*arm.grid.values()):
        if (mark := repr(values)) not in seen:
            seen.add(mark)
            axes = zip(arm.grid, values, strict=True)
            yield {key: value for axis, given in axes for key, value in _moved(arm, axis, given)}


def _moved(arm: Arm, axis: str, given: Any) -> list[tuple[str, Any]]:
    keys = [key.strip() for key in axis.split(",")]
    if len(keys) == 1:
        return [(axis, given)]
    if not isinstance(given, list) or len(given) != len(keys):
        expected = f"a list of {len(keys)} values, one for each of its keys"
        raise wrong(f"{arm.name}.grid.{axis}", given, expected, "correct the experiment's yaml")
    return list(zip(keys, given, strict=True))


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
