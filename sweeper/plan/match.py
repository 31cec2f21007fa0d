"""Stop 3 of the road: find the value of one key that gives a model a target size.

The size of a model is counted, not computed by a formula. It never falls as the key grows, and with
most variants it is a polynomial in the key of degree at most two. So a parabola through the sizes
of three models predicts the solution, and two more models confirm it. If they do not, bisection
finds the solution. If only some values give a valid model, such as the divisors of the number of
heads, values are tried one by one.

In: a function that counts, and a target. Out: the value and its count. Next: run/schedule.py.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator

from sweeper.store.errors import UserError

LARGEST = 2**20
GAP = 256  # give up after this many multiples in a row without a valid model
WALKED = 4096  # try at most this many multiples one by one

FALLS = "the model gets smaller as the key grows; solve for another key"


class _Missing(Exception):
    """The error that a value has no valid model."""


def solve(
    count: Callable[[int], int | UserError], target: int, *, step: int = 1
) -> tuple[int, int]:
    """Return the multiple of `step` whose model is nearest to `target` in size, and this size.

    Args:
        count: returns the size of the model at a value of the key, or an error if it is invalid.
        target: the wanted size.
        step: the solution is a multiple of this number.

    Raises:
        UserError: no multiple of `step` gives a valid model, or the size does not change, or it
            falls as the key grows.
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
        reason = str(try_at(1)).removesuffix(".")
        raise UserError(f"no value gives a valid model (for {step}: {reason})")
    if not changes:
        values = ", ".join(str(multiple * step) for multiple in tried)
        same = f"the count is {at(tried[0]):,} at {values}"
        raise UserError(
            f"the key does not change the size ({same}); solve for another key"
        )
    best = min(near, key=lambda multiple: (abs(at(multiple) - target), multiple))
    return best * step, at(best)


def _guess(first: list[int], target: int) -> int:
    """Return where the parabola through the counts at 1, 2, 3 reaches `target`, rounded down."""
    slope, bend = first[1] - first[0], first[2] - 2 * first[1] + first[0]

    def count(t: int) -> int:
        """Return the value of the parabola at 1 + t, in Newton's form."""
        return first[0] + t * slope + t * (t - 1) // 2 * bend

    return max(1, bisect_right(range(LARGEST), target, key=count))


def _last_not_above(at: Callable[[int], int], target: int, guess: int) -> int:
    """Return the largest multiple whose count is at most `target`, or 0 if there is none."""
    if at(1) > target:
        return 0
    low, high = 1, guess + 1
    if guess > 1 and at(guess) <= target:
        low = guess
    while at(high) <= target:
        low, high = high, 2 * high
        if high > LARGEST:
            raise UserError(f"no value up to {LARGEST:,} reaches {target:,}")
    return low + bisect_right(range(low + 1, high), target, key=at)


def _with_models(
    try_at: Callable[[int], int | UserError], target: int
) -> Iterator[int]:
    """Yield the multiples that give a valid model, in ascending order.

    Stop after the first model larger than `target`, but not before the second model. Stop also
    after GAP multiples in a row without a valid model.
    """
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
    raise UserError(f"no value up to {WALKED:,} reaches {target:,}")
