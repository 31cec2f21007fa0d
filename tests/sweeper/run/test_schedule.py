"""The schedule, told with a backend that trains nothing: order, slots, adoption, interruption."""

from __future__ import annotations

import os
import signal

import pytest

from sweeper.run.backend import Phase
from sweeper.run.stop import Stopped, StopSignals
from tests.sweeper.run.stories import Queue, act, job, phases


def test_longest_first_and_never_more_than_the_slots(tell):
    schedule, backend = tell([job("a", 1), job("b", 5), job("c", 3), job("d", 9)], {})
    assert schedule.execute()
    assert [name[-1] for name in backend.started] == ["d", "b", "c", "a"]
    assert backend.busiest == 2


def test_a_slot_that_takes_nothing_yet_is_asked_again(tell):
    schedule, backend = tell([job("a", 2), job("b", 1)], {})
    backend.held = {0: True, 1: True}
    assert schedule.execute()
    assert len(backend.started) == 2
    assert backend.held == {}


def test_a_run_that_waits_for_room_is_overtaken_by_none(tell):
    schedule, backend = tell([job("a", 3), job("b", 2), job("c", 1)], {}, slots=2)
    grant, asked = backend.grant, []

    def one_at_a_time(job, free):
        asked.append(job.run[-1])
        return None if job.run[-1] == "b" and len(free) < 2 else grant(job, free)

    backend.grant = one_at_a_time
    assert schedule.execute()
    assert [name[-1] for name in backend.started] == ["a", "b", "c"]
    assert asked == ["a", "b", "b", "c"]


def test_what_is_done_is_not_started(tell, store):
    jobs = [job("a"), job("b")]
    schedule, backend = tell(jobs, {})
    act(store.run(jobs[0].run), "done")
    assert schedule.execute()
    assert backend.started == [jobs[1].run]


def test_a_run_of_another_sweep_is_adopted_and_counts_against_the_slots(tell, store):
    jobs = [job("a"), job("b"), job("c")]
    schedule, backend = tell(jobs, {}, slots=1)
    other = store.run(jobs[0].run).claim({})  # this test's own process: alive, not ours to start
    looks = []

    def changed(schedule, state):
        looks.append(len(backend.started))
        if len(looks) == 4:
            store.run(jobs[0].run).publish_result(other, {"metrics": {}, "steps": 1})
            other.finish("done")

    schedule.changed = changed
    assert schedule.execute()
    assert jobs[0].run not in backend.started
    assert looks[3] == 0  # nothing was started while the only slot was taken


def test_parents_go_first_and_a_failed_parent_blocks_its_children_by_name(tell):
    jobs = [job("c", 9, "p"), job("d", 9, "q"), job("p", 1), job("q", 1), job("e", 9, "d")]
    schedule, backend = tell(jobs, {jobs[3].run: ["crash"]})
    assert not schedule.execute()
    assert phases(schedule) == {
        "p": Phase.DONE,
        "c": Phase.DONE,
        "q": Phase.FAILED,
        "d": Phase.BLOCKED,
        "e": Phase.BLOCKED,
    }
    assert backend.started.index(jobs[2].run) < backend.started.index(jobs[0].run)
    assert jobs[3].run in schedule.states[jobs[1].run].reason


def test_ctrl_c_asks_jobs_to_save_and_starts_nothing_more(tell):
    jobs = [job("a", 3), job("b", 2), job("c", 1)]
    schedule, backend = tell(
        jobs, {jobs[0].run: ["ctrl-c", "interrupted"], jobs[1].run: ["interrupted"]}
    )
    with pytest.raises(KeyboardInterrupt):
        schedule.execute()
    assert backend.signals == [(1, signal.SIGTERM), (2, signal.SIGTERM)]
    assert phases(schedule) == {"a": Phase.FAILED, "b": Phase.FAILED, "c": Phase.WAITING}
    assert "interrupted" in schedule.states[jobs[0].run].reason


def test_a_second_ctrl_c_stops_at_once(tell):
    jobs = [job("a", 3), job("b", 2)]
    schedule, backend = tell(
        jobs, {jobs[0].run: ["ctrl-c", "ctrl-c", "interrupted"], jobs[1].run: ["interrupted"]}
    )
    with pytest.raises(KeyboardInterrupt):
        schedule.execute()
    assert [number for _, number in backend.signals] == [signal.SIGTERM] * 2 + [signal.SIGKILL] * 2


def test_a_queue_is_given_children_while_their_parent_is_under_way(tell, store):
    jobs = [job("p", 9), job("c", 1, "p")]
    schedule, _ = tell(jobs, {})
    schedule.backend = queue = Queue(store, {}, 2)
    assert schedule.execute()
    assert queue.started == [jobs[0].run, jobs[1].run]
    assert queue.after == {jobs[0].run: None, jobs[1].run: 1}


def test_a_job_whose_server_is_gone_but_which_lives_is_adopted(tell, store):
    """The backend says that it ended; the record says that it trains."""
    jobs = [job("a")]
    schedule, backend = tell(jobs, {})
    attempts = []
    backend.ended = lambda timeout: [1]

    def changed(schedule, state):
        if state is not None and state.handle is not None:
            attempts.append(store.run(jobs[0].run).claim({}))
        elif state is None and schedule.states[jobs[0].run].handle is None:
            store.run(jobs[0].run).publish_result(attempts[0], {"metrics": {}, "steps": 1})
            attempts[0].finish("done")

    schedule.changed = changed
    assert schedule.execute()
    assert len(backend.started) == len(attempts) == 1


def test_a_signal_that_came_while_jobs_were_started_is_heeded_after(tell):
    jobs = [job("a", 2), job("b", 1)]
    schedule, backend = tell(jobs, {one.run: ["interrupted"] for one in jobs})
    signals = StopSignals()

    with signals, signals.held():
        schedule.check_for_stop = signals.check
        backend.ended = lambda timeout, ended=backend.ended: (
            ended(timeout) if backend.signals else os.kill(os.getpid(), signal.SIGTERM) or []
        )
        with pytest.raises(Stopped) as stopped:
            schedule.execute()
    assert stopped.value.code == 143
    assert [number for _, number in backend.signals] == [signal.SIGTERM] * 2
