"""Matching: the solver against exhaustive search, on sizes that models really have and others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.plan.match import solve
from sweeper.store.errors import UserError


def exhaustive(count, target: int, step: int) -> int:
    candidates = range(step, 400 * step, step)
    return min(candidates, key=lambda value: (abs(count(value) - target), value))


@given(
    constant=st.integers(0, 10**6),
    slope=st.integers(100, 10**5),
    bend=st.integers(0, 10**3),
    value=st.integers(1, 300),
    off=st.integers(-5000, 5000),
    step=st.sampled_from([1, 7]),
)
def test_the_nearest_value_is_found(constant, slope, bend, value, off, step):
    def count(x):
        return constant + slope * x + bend * x * x

    target = max(1, count(value) + off)
    solution = solve(count, target, step=step)
    best = exhaustive(count, target, step)
    assert abs(count(solution.value) - target) == abs(count(best) - target)
    assert solution.value % step == 0
    assert solution.achieved == count(solution.value)


def test_a_count_that_is_no_parabola_is_still_solved():
    def count(x):
        return 100 * (x // 3) + x**3  # steps and a cube: the first guess is wrong

    for target in (1, 57, 5_000, 123_456):
        assert solve(count, target).value == exhaustive(count, target, 1)


def test_a_polynomial_size_takes_few_builds():
    built = []

    def count(x):
        built.append(x)
        return 8_000_000 + 786_432 * x

    solution = solve(count, 29_380_000)
    assert solution.value == 27
    assert len(set(built)) <= 6


def test_a_target_below_the_smallest_model_gives_the_smallest():
    assert solve(lambda x: 1000 + x, 10).value == 1


def test_a_size_that_never_reaches_the_target_is_said():
    with pytest.raises(UserError, match="large enough"):
        solve(lambda x: 7, 8)


def test_a_key_that_gives_no_model_is_said():
    with pytest.raises(UserError, match="no model"):
        solve(lambda x: None, 8)
