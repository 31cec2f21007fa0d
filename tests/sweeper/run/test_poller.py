"""What a sweep asks a file server for while its runs get on."""

from __future__ import annotations

import os

import pytest

from sweeper.run.backend import JobState, Phase
from sweeper.run.schedule import MANY, StatusPoller
from sweeper.store.runs import State
from tests.sweeper.run.stories import job


@pytest.fixture
def asked(store, monkeypatch):
    """The names below the outputs folder that were opened, listed or asked about."""
    paths = []

    def noted(call):
        def noting(path, *arguments, **options):
            if str(path).startswith(str(store.outputs)):
                paths.append(os.path.relpath(path, store.outputs))
            return call(path, *arguments, **options)

        return noting

    for name in ("open", "stat", "lstat", "scandir"):
        monkeypatch.setattr(os, name, noted(getattr(os, name)))
    return paths


@pytest.fixture
def moments(monkeypatch):
    """A clock of the poller that a test sets."""
    now = [0.0]
    monkeypatch.setattr("sweeper.run.schedule.time.monotonic", lambda: now[0])
    return now


def begun(tell, store, count):
    jobs = [job(str(number)) for number in range(count)]
    tell(jobs, {})
    attempts = [store.run(one.run).claim({}) for one in jobs]
    return [JobState(one, Phase.RUNNING) for one in jobs], attempts


def test_a_run_that_gets_on_is_one_question_a_look_whatever_its_heartbeat_says(
    tell, store, asked, moments
):
    states, attempts = begun(tell, store, 3)
    poller = StatusPoller(store, 30.0)
    for step in (1, 2):
        for attempt in attempts:
            attempt.heartbeat(step=step)
        asked.clear()
        assert poller.poll(states)
        moments[0] += 30.0
    assert sorted(asked) == [f"runs/{s.job.run}/attempts/0001/beat.json" for s in states]
    assert [s.status.heartbeat["step"] for s in states] == [2] * 3
    assert {s.status.state for s in states} == {State.RUNNING}


def test_a_run_whose_heartbeat_stands_still_is_looked_at_in_full(tell, store, moments):
    [state], [attempt] = begun(tell, store, 1)
    attempt.heartbeat(step=1)
    poller = StatusPoller(store, 30.0)
    assert poller.poll([state])
    attempt.finish("crash", "no more")
    moments[0] += 30.0
    assert poller.poll([state])
    assert state.status.state is State.FAILED


def test_of_many_runs_each_is_looked_at_the_more_rarely(tell, store, moments):
    states, _ = begun(tell, store, 2)
    poller = StatusPoller(store, 30.0)
    assert poller.poll(states * MANY)  # twice as many
    moments[0] += 59.0
    assert not poller.poll(states * MANY)
    moments[0] += 1.0
    assert poller.poll(states)


def test_a_run_that_waits_for_room_is_asked_about_now_and_then(tell, store, asked, moments):
    tell([job("a")], {})
    poller = StatusPoller(store, 30.0)
    assert poller.before_start(job("a").run) is State.NEW
    asked.clear()
    assert poller.before_start(job("a").run) is State.NEW
    assert not asked
    store.run(job("a").run).claim({})
    moments[0] += 30.0
    assert poller.before_start(job("a").run) is State.RUNNING
    assert poller.before_start(job("a").run) is State.RUNNING
    assert asked
