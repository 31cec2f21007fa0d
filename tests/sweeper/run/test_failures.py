"""Which failures are tried again, and which runs count as hanging."""

import signal

import pytest

from sweeper.run.failures import DUMP, OWN, Breaker, Watchdog
from sweeper.run.options import LONGEST_WAIT_S, TRANSIENT
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
def test_a_runs_own_setting_says_nothing_about_the_next_and_zero_never_stops(cause):
    breakers = Breaker(policy(equal_failures=2)), Breaker(policy(equal_failures=0))
    for _ in range(5):
        for breaker, why in zip(breakers, (cause, Cause.CRASH), strict=True):
            breaker.failed("a", failed(why))
            assert not breaker.tripped


def test_fail_fast_needs_one_of_any_kind():
    breaker = Breaker(policy(fail_fast=True))
    breaker.failed("a", failed(Cause.NAN))
    assert "fail_fast" in breaker.tripped


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def follow(watchdog, clock, moments):
    """What is sent at each moment (seconds, batches done)."""
    sent = []
    for heartbeats, (now, work) in enumerate(moments):
        clock.now = now
        sent.append(watchdog.due("run/1", {"beat": heartbeats, "work": work, "step": 1}))
    return sent


def test_a_run_that_gets_on_is_left_alone(clock):
    moments = [(10.0 * i, i) for i in range(50)]
    assert not any(follow(Watchdog(11, 3, clock), clock, moments))


def test_beats_without_a_batch_are_no_progress(clock):
    watchdog = Watchdog(100, 7, clock)
    moments = [(0, 5), (1, 6), *((float(now), 6) for now in range(2, 101))]
    assert not any(follow(watchdog, clock, moments))
    clock.now = 102
    assert watchdog.due("run/1", {"beat": 1000, "work": 6, "step": 1}) is DUMP
    assert watchdog.hung("run/1")


def test_the_stack_is_asked_for_then_sigterm_then_after_the_grace_sigkill(clock):
    watchdog = Watchdog(100, 7, clock)
    moments = [(0, 5), (1, 6), (102, 6), (103, 6), (105, 6), (109, 6), (111, 6)]
    assert follow(watchdog, clock, moments) == [
        None, None, DUMP, signal.SIGTERM, None, None, signal.SIGKILL,
    ]  # fmt: skip


def test_slow_steps_are_given_ten_times_their_median(clock):
    moments = [(40.0 * i, i) for i in range(6)]
    watchdog = Watchdog(100, 7, clock)
    assert not any(follow(watchdog, clock, [*moments, (200 + 399, 5)]))
    clock.now = 200 + 401
    assert watchdog.due("run/1", {"work": 5, "step": 1}) is DUMP


def test_a_run_that_never_began_hangs_too(clock):
    watchdog = Watchdog(100, 7, clock)
    assert watchdog.due("run/1", None) is None
    clock.now = 101
    assert watchdog.due("run/1", None) is DUMP


def test_who_was_told_to_end_is_ended_even_if_it_moves_again(clock):
    watchdog = Watchdog(100, 7, clock)
    sent = follow(watchdog, clock, [(0, 1), (0, 2), (101, 2), (102, 3)])
    assert sent[2:] == [DUMP, signal.SIGTERM]


def test_a_run_that_got_on_did_not_hang(clock):
    watchdog = Watchdog(100, 7, clock)
    follow(watchdog, clock, [(0, 1), (50, 2)])
    assert watchdog.hung("run/1") == watchdog.hung("never seen") == ""
