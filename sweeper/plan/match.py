"""Stop 3 of the road: the whole number under one key that brings a model to a given size.

The count is asked of real models only. It never falls as the key grows, and in every key it is a
polynomial of degree two at most over most variants, so a parabola through three builds names the
solution, two more builds confirm it, and bisection takes over where they do not. In: how to count,
and a target. Out: the number, what it achieves, the error that the plan prints. Next: schedule.py.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from sweeper.store.errors import UserError

LARGEST = 2**20


def solve(count: Callable[[int], int | None], target: int, *, step: int = 1) -> tuple[int, int]:
    """Return the multiple of `step` whose count is nearest to `target`, and this count.

    Args:
        count: the size a model has at a value of the key, or None where there is no such model.
        target: the size asked for, at least 1.
        step: only multiples of this are tried.

    Raises:
        UserError: no multiple of `step` gives a model at all.
    """
    sizes: dict[int, int] = {}

    def at(multiple: int) -> int:
        if multiple not in sizes:
            size = count(multiple * step)
            if size is None:
                raise UserError(f"no model can be built with the value {multiple * step}")
            sizes[multiple] = size
        return sizes[multiple]

    below = _last_not_above(at, target, _guess([at(1), at(2), at(3)], target))
    best = min((below, below + 1), key=lambda m: (abs(at(m) - target), m)) if below else 1
    return best * step, at(best)


def _guess(first: list[int], target: int) -> int:
    """Where the parabola through the counts at 1, 2, 3 reaches `target`, rounded down."""
    slope, bend = first[1] - first[0], first[2] - 2 * first[1] + first[0]

    def count(t: int) -> int:  # at 1 + t
        return first[0] + t * slope + t * (t - 1) // 2 * bend

    return max(1, bisect_right(range(LARGEST), target, key=count))


def _last_not_above(at: Callable[[int], int], target: int, guess: int) -> int:
    """The largest multiple whose count is at most `target`; 0 if there is none."""
    if at(1) > target:
        return 0
    low, high = 1, guess + 1
    if guess > 1 and at(guess) <= target:
        low = guess
    while at(high) <= target:
        low, high = high, 2 * high
        if high > LARGEST:
            raise UserError(f"no value up to {LARGEST:,} is large enough to reach {target:,}")
    return low + bisect_right(range(low + 1, high), target, key=at)
