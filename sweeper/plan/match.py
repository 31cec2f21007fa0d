"""Find the value of a key, such as the number of heads, that gives a model a target size.

To measure the size of a model, the size server builds it. The size must not fall as the key grows.
With most attention variants, the size is a polynomial in the key of degree at most two. So a
parabola through the sizes of three models predicts the solution, and two more models confirm it. If
they contradict the prediction, bisection finds the solution. If some values give no valid model,
because the key must divide the number of heads, for example, `solve` tries the values one by one.

This file is stop 3 of the road through the code in CONTRIBUTING.md. Read run/schedule.py next.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache

from sweeper.store.errors import UserError

LARGEST = 2**20
GAP = 256  # when trying one by one, stop after this many values in a row without a valid model
MOST_TRIED = 4096  # try at most this many values one by one

FALLS = "the model gets smaller as the key grows; solve for another key."


class _NoValidModel(Exception):
    """Raised if a tried value gives no valid model."""


def solve(
    count: Callable[[int], int | UserError], target: int, *, step: int = 1
) -> tuple[int, int]:
    """Return the value of a key whose model has the size nearest to `target`, and this size.

    Args:
        count: a function that takes a value of the key and returns the size of the model. For an
            invalid model, it returns an error.
        target: the wanted size.
        step: try only multiples of this number.

    Raises:
        UserError: no value gives a valid model or reaches `target`, the size does not depend on the
            key, or the size falls as the key grows.
    """

    @cache
    def try_at(multiple: int) -> int | UserError:
        return count(multiple * step)

    def at(multiple: int) -> int:
        size = try_at(multiple)
        if isinstance(size, UserError):
            raise _NoValidModel
        return size

    try:
        tried = [1, 2, 3]
        first = [*map(at, tried)]
        changes = len({*first}) > 1
        if first[-1] < first[0]:
            raise UserError(FALLS)
        guess = _guess(first, target)
        below = _last_not_above(at, target, guess, step) if changes else 0
        near = [below, below + 1] if below else [1]
    except _NoValidModel:
        near = tried = [*_valid_multiples(try_at, target, step)]
        changes = len(tried) < 2 or len({*map(at, tried)}) > 1
        if tried and at(tried[-1]) < at(tried[0]):
            raise UserError(FALLS) from None
    if not near:
        raise UserError(
            f"no value gives a valid model; with the value {step}, the error is: {try_at(1)}"
        )
    if not changes:
        values = ", ".join(str(multiple * step) for multiple in tried)
        same = f"it is {at(tried[0]):,} for {values}"
        raise UserError(
            f"the key does not change the size ({same}); solve for another key."
        )
    best = min(near, key=lambda multiple: (abs(at(multiple) - target), multiple))
    return best * step, at(best)


def _guess(first: list[int], target: int) -> int:
    """Return the largest whole x at which a parabola is at most `target`, but at least 1.

    `first` holds the values of the parabola at x = 1, 2 and 3.
    """
    slope, bend = first[1] - first[0], first[2] - 2 * first[1] + first[0]

    def count(t: int) -> int:
        """Return the parabola's value at x = 1 + t, by Newton's interpolation formula."""
        return first[0] + t * slope + t * (t - 1) // 2 * bend

    return max(1, bisect_right(range(LARGEST), target, key=count))


def _last_not_above(
    at: Callable[[int], int], target: int, guess: int, step: int
) -> int:
    """Return the largest number m with `at(m) <= target`, or 0 if there is none.

    `guess` is an estimate of m. The better it is, the fewer calls of `at` are needed.
    """
    if at(1) > target:
        return 0
    low, high = 1, min(guess + 1, LARGEST)
    if guess > 1 and at(guess) <= target:
        low = guess
    while at(high) <= target:
        if high == LARGEST:
            raise _too_large(target, LARGEST * step)
        low, high = high, min(2 * high, LARGEST)
    return low + bisect_right(range(low + 1, high), target, key=at)


def _valid_multiples(
    try_at: Callable[[int], int | UserError], target: int, step: int
) -> Iterator[int]:
    """Yield the numbers m for which the value m * step gives a valid model, in ascending order.

    Stop after the first model that is larger than `target`, but yield at least two numbers. Also
    stop after GAP numbers in a row without a valid model. Raise UserError after MOST_TRIED numbers.
    """
    last = 0
    for multiple in range(1, MOST_TRIED + 1):
        size = try_at(multiple)
        if isinstance(size, int):
            yield multiple
            if last and size > target:
                return
            last = multiple
        elif multiple - last > GAP:
            return
    raise _too_large(target, MOST_TRIED * step)


def _too_large(target: int, largest: int) -> UserError:
    return UserError(
        f"no value up to {largest:,} reaches the size {target:,}; choose a smaller target."
    )
