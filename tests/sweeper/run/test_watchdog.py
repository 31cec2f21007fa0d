"""Only batches done are progress; a run without any is asked, told and then ended."""

from __future__ import annotations

import signal

import pytest

from sweeper.run.watchdog import DUMP, Watchdog


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
    assert follow(watchdog, clock, [(0, 1), (0, 2), (101, 2), (102, 3)])[2:] == [
        DUMP,
        signal.SIGTERM,
    ]


def test_a_run_that_got_on_did_not_hang(clock):
    watchdog = Watchdog(100, 7, clock)
    follow(watchdog, clock, [(0, 1), (50, 2)])
    assert watchdog.hung("run/1") == watchdog.hung("never seen") == ""
