"""Tests of the failures after which a run starts again, and of the detection of hanging runs."""

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


def test_waits_double_up_to_ten_minutes():
    waits = policy(wait_s=5)
    assert [waits.wait(tries) for tries in (1, 2, 3, 4)] == [5, 10, 20, 40]
    assert waits.wait(1000) == LONGEST_WAIT_S


def test_equal_failures_in_a_row_are_enough_whatever_their_runs_and_numbers():
    breaker = Breaker(policy(equal_failures=3))
    for number, run in enumerate(("lm1b-a", "lm1b-b", "lm1b-c")):
        assert not breaker.tripped
        reason = f"crash: {run}/x.ckpt has no layer {number}"
        breaker.failed(run, failed(Cause.CRASH, reason))
    assert "3 runs in a row" in breaker.tripped
    assert "no layer 2" in breaker.tripped


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


SLOW = [(40.0 * i, i) for i in range(6)]
TERM, KILL = signal.SIGTERM, signal.SIGKILL
# The moments (seconds, finished batches) at which a watchdog is asked, and the signals it sends.
MOMENTS = {
    "a run that gets on": ([(10.0 * i, i) for i in range(50)], [None] * 50),
    "the stack, SIGTERM, and after the grace SIGKILL": (
        [(0, 5), (1, 6), (102, 6), (103, 6), (105, 6), (109, 6), (111, 6)],
        [None, None, DUMP, TERM, None, None, KILL],
    ),
    "slow steps have ten times their median": (
        [*SLOW, (200 + 399, 5), (200 + 401, 5)],
        [*[None] * 7, DUMP],
    ),
    "a run that never began": ([(0, None), (101, None)], [None, DUMP]),
    "told to end, it is ended even if it moves again": (
        [(0, 1), (0, 2), (101, 2), (102, 3)],
        [None, None, DUMP, TERM],
    ),
}


@pytest.mark.parametrize(("moments", "signals"), MOMENTS.values(), ids=MOMENTS)
def test_a_run_without_progress_is_signalled_and_said_to_hang(moments, signals):
    now, sent = [0.0], []
    watchdog = Watchdog(100, 7, lambda: now[0])
    for heartbeats, (now[0], work) in enumerate(moments):
        beat = None if work is None else {"beat": heartbeats, "work": work, "step": 1}
        sent.append(watchdog.due("run/1", beat))
    assert sent == signals
    assert bool(watchdog.hung("run/1")) == any(signals)
