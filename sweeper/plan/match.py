"""Stop 3 of the road: the whole number under one key that brings a model to a given size.

The count is asked of real models only. It never falls as the key grows, and in every key it is a
polynomial of degree two at most over most variants, so a parabola through three builds names the
solution, two more builds confirm it, and bisection takes over where they do not. Where only some
values have a model, such as the divisors of the heads, these are tried one by one. In: how to
count, and a target. Out: the number, what it achieves, the error that the plan prints. Next:
schedule.py.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator

from sweeper.store.errors import UserError

LARGEST = 2**20
GAP, WALKED = 256, 4096  # multiples in a row that may have no model; multiples tried one by one


FALLS = "its count falls as the key grows; solve for another key"


class _Missing(Exception):
    """There is no model at a value that was asked for."""


def solve(
    count: Callable[[int], int | UserError], target: int, *, step: int = 1
) -> tuple[int, int]:
    """Return the multiple of `step` whose count is nearest to `target`, and this count.

    `count` returns the size of the model at a value of the key, or why there is no such model.

    Raises:
        UserError: no multiple of `step` gives a model, all give models of the same size, or larger
            ones give smaller models.
    """
    known: dict[int, int | UserError] = {}

    def try_at(multiple: int) -> int | UserError:
        if multiple not in known:
            known[multiple] = count(multiple * step)
        return known[multiple]

    def at(multiple: int) -> int:
        size = try_at(multiple)
        if isinstance(size, UserError):
            raise _Missing
        return size

    try:
        tried = [1, 2, 3]
        first = [*map(at, tried)]
        changes = len({*first}) > 1
        if first[-1] < first[0]:
            raise UserError(FALLS)
        below = _last_not_above(at, target, _guess(first, target)) if changes else 0
        near = [below, below + 1] if below else [1]
    except _Missing:
        near = tried = [*_with_models(try_at, target)]
        changes = len(tried) < 2 or len({*map(at, tried)}) > 1
        if tried and at(tried[-1]) < at(tried[0]):
            raise UserError(FALLS) from None
    if not near:
        raise UserError(f"no value has a model (at {step}: {str(try_at(1)).removesuffix('.')})")
    if not changes:
        values = ", ".join(str(multiple * step) for multiple in tried)
        same = f"which is {at(tried[0]):,} at {values}"
        raise UserError(f"it does not change the count, {same}; solve for another key")
    best = min(near, key=lambda multiple: (abs(at(multiple) - target), multiple))
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


def _with_models(try_at: Callable[[int], int | UserError], target: int) -> Iterator[int]:
    """Yield multiples that have a model: two at least, up to one above `target` or a large gap."""
    last = 0
    for multiple in range(1, WALKED + 1):
        size = try_at(multiple)
        if isinstance(size, int):
            yield multiple
            if last and size > target:
                return
            last = multiple
        elif multiple - last > GAP:
            return
    raise UserError(f"no value up to {WALKED:,} with a model is large enough to reach {target:,}")
