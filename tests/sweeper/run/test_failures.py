"""What is tried again, when, and when a sweep has had enough."""

from __future__ import annotations

import pytest

from sweeper.run.failures import LONGEST_WAIT_S, OWN, TRANSIENT, Breaker
from sweeper.store.attempts import Cause
from sweeper.store.runs import State, Status
from tests.policies import policy


def failed(cause, reason="x"):
    return Status(State.FAILED, reason, 1, None, cause)


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.DONE])
def test_only_what_a_further_start_may_mend_is_tried_again(cause):
    assert policy().again(failed(cause), 1) == (cause in TRANSIENT)
    assert policy().again(failed(cause), 3) == (cause is Cause.DISK_FULL)
    assert not policy(fail_fast=True).again(failed(cause), 1)


def test_waits_double_up_to_ten_minutes():
    waits = policy(wait_s=5)
    assert [waits.wait(tries) for tries in (1, 2, 3, 4)] == [5, 10, 20, 40]
    assert waits.wait(1000) == LONGEST_WAIT_S


def test_equal_failures_in_a_row_are_enough_whatever_their_numbers():
    breaker = Breaker(policy(equal_failures=3))
    for number in range(3):
        assert not breaker.tripped
        breaker.failed(f"run {number}", failed(Cause.CRASH, f"crash: no such layer {number}"))
    assert "3 runs in a row" in breaker.tripped
    assert "no such layer 2" in breaker.tripped


def test_other_failures_and_successes_begin_the_row_anew():
    breaker = Breaker(policy(equal_failures=2))
    breaker.failed("a", failed(Cause.CRASH, "crash: one"))
    breaker.failed("b", failed(Cause.CRASH, "crash: another"))
    breaker.done(0.0)
    breaker.failed("c", failed(Cause.CRASH, "crash: another"))
    assert not breaker.tripped


@pytest.mark.parametrize("cause", OWN)
def test_a_runs_own_setting_says_nothing_about_the_next(cause):
    breaker = Breaker(policy(equal_failures=2))
    for _ in range(5):
        breaker.failed("a", failed(cause))
    assert not breaker.tripped


def test_fail_fast_needs_one_of_any_kind():
    breaker = Breaker(policy(fail_fast=True))
    breaker.failed("a", failed(Cause.NAN))
    assert "fail_fast" in breaker.tripped


def test_zero_never_stops():
    breaker = Breaker(policy(equal_failures=0))
    for _ in range(9):
        breaker.failed("a", failed(Cause.CRASH))
    assert not breaker.tripped
