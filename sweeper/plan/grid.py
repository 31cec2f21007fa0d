"""The grid of an arm: how large it is, what its axes move together, a point of it in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sweeper.plan.experiment import Arm
from sweeper.store.errors import UserError, wrong


def count(arm: Arm) -> int:
    """How many combinations there are of an arm's values, without making them."""
    return math.prod(len(values) for values in arm.grid.values())


def apart(arm: Arm, values: Mapping[str, Any]) -> dict[str, Any]:
    """A combination with a value for each key, where an axis of the arm moves several together.

    Such an axis is `model.heads,model.layers: [[8, 2], [9, 3]]`.
    """
    found = {}
    for axis, given in values.items():
        keys = [key.strip() for key in axis.split(",")]
        if len(keys) == 1:
            found[axis] = given
        elif isinstance(given, list) and len(given) == len(keys):
            found |= zip(keys, given, strict=True)
        else:
            expected = f"a list of {len(keys)} values, one for each of its keys"
            raise wrong(f"{arm.name}.grid.{axis}", given, expected, "correct the experiment's yaml")
    return found


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
    words = {key: "null" if value is None else value for key, value in values.items()}
    return " ".join(f"{key.rpartition('.')[2]}={word}" for key, word in words.items())
