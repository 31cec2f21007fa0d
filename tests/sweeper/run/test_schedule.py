"""Tests of the schedule with a backend that trains nothing: order, retries, budget and polls."""

import io
import os
import signal
from itertools import count

import pytest
from rich.console import Console

from sweeper.run.failures import DUMP, Watchdog, hours
from sweeper.run.schedule import MANY, JobState, Phase, StatusPoller, counts
from sweeper.run.stop import Stopped, StopSignals
from sweeper.stages.publish import print_unfinished
from sweeper.store.runs import State
from tests.policies import policy
from tests.sweeper.run.conftest import act, job, phases


def test_longest_first_never_more_than_the_slots_and_nothing_that_is_done(tell, store):
    jobs = [job("a", 1), job("b", 5), job("c", 3), job("d", 9), job("e", 7)]
    schedule, backend = tell(jobs, {})
    act(store.run(jobs[-1].run), "done")
    assert schedule.execute()
    assert [name[-1] for name in backend.started] == ["d", "b", "c", "a"]
    assert backend.busiest == 2


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


def test_a_run_of_another_sweep_is_adopted_and_counts_against_the_slots(tell, store):
    jobs = [job("a"), job("b"), job("c")]
    schedule, backend = tell(jobs, {}, slots=1)
    run = store.run(jobs[0].run)
    # The process of this test trains the run, like that of another sweep.
    other = run.claim({})
    looks = []

    def changed(schedule, state):
        looks.append(len(backend.started))
        if len(looks) == 4:
            done(run, other)

    schedule.changed = changed
    assert schedule.execute()
    assert run.id not in backend.started
    assert looks[3] == 0  # no job started while the only slot was taken


def test_an_adopted_run_keeps_the_slot_of_its_gpu(tell, store):
    jobs = [job("a"), job("b")]
    schedule, backend = tell(jobs, {}, slots=2)
    backend.devices = ("GPU-1a", "GPU-2a").__getitem__
    other = store.run(jobs[0].run).claim({"visible_gpus": "GPU-1a"})
    late = store.run(jobs[0].run).claim({"visible_gpus": "GPU-2a"})
    late.finish("interrupted")
    slots = []

    def changed(schedule, state):
        slots.extend(slot for _, _, slot in backend.running)
        if slots:
            done(store.run(jobs[0].run), other)

    schedule.changed = changed
    assert schedule.execute()
    assert set(slots) == {1}


def test_parents_go_first_and_a_failed_parent_blocks_its_children_by_name(tell):
    jobs = [job("c", 9, "p"), job("d", 9, "q"), job("p"), job("q"), job("e", 9, "d")]
    schedule, backend = tell(jobs, {jobs[3].run: ["crash"]})
    assert not schedule.execute()
    ended = {"p": Phase.DONE, "c": Phase.DONE, "q": Phase.FAILED}
    assert phases(schedule) == {**ended, "d": Phase.BLOCKED, "e": Phase.BLOCKED}
    assert backend.started.index(jobs[2].run) < backend.started.index(jobs[0].run)
    assert jobs[3].run in schedule.states[jobs[1].run].reason


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_asks_jobs_to_save_and_starts_nothing_more_and_a_second_stops_them(
    tell, presses
):
    jobs = [job("a", 3), job("b", 2), job("c", 1)]
    story = {
        jobs[0].run: [*["ctrl-c"] * presses, "interrupted"],
        jobs[1].run: ["interrupted"],
    }
    schedule, backend = tell(jobs, story)
    with pytest.raises(KeyboardInterrupt):
        schedule.execute()
    asked = [signal.SIGTERM, signal.SIGKILL][:presses]
    assert backend.signals == [(job, number) for number in asked for job in (1, 2)]
    if presses == 1:
        stopped = {"a": Phase.STOPPED, "b": Phase.STOPPED}
        assert phases(schedule) == {**stopped, "c": Phase.WAITING}
        assert "interrupted" in schedule.states[jobs[0].run].reason


def test_what_failed_before_or_while_a_sweep_is_stopped_has_failed(tell):
    jobs = [job(name, cost) for cost, name in enumerate("dcba")]
    story = {
        jobs[0].run: ["interrupted"],
        jobs[1].run: ["nan"],
        jobs[2].run: ["ctrl-c", "interrupted"],
        jobs[3].run: ["nan"],
    }
    schedule, _ = tell(jobs, story, slots=2)
    with pytest.raises(KeyboardInterrupt):
        schedule.execute()
    tally = counts(schedule.states)
    assert (tally[Phase.STOPPED], tally[Phase.FAILED]) == (1, 2)


def test_a_queue_is_given_children_while_their_parent_is_under_way(tell):
    jobs = [job("p", 9), job("c", 1, "p")]
    schedule, queue = tell(jobs, {})
    queue.queues = True
    assert schedule.execute()
    assert queue.started == [jobs[0].run, jobs[1].run]
    assert queue.after == {jobs[0].run: None, jobs[1].run: 1}


def done(run, attempt):
    run.publish_result(attempt, {"metrics": {}, "steps": 1})
    attempt.finish("done")


def test_a_job_whose_server_is_gone_but_which_lives_is_adopted(tell, store):
    """The backend reports the end of the job, but its heartbeats show that it still trains."""
    schedule, backend = tell([job("a")], {})
    run, attempts = store.run(job("a").run), []
    backend.ended = lambda timeout: [1]

    def changed(schedule, state):
        if state is not None and state.handle is not None:
            attempts.append(run.claim({}))
        elif state is None and schedule.states[run.id].handle is None:
            done(run, attempts[0])

    schedule.changed = changed
    assert schedule.execute()
    assert len(backend.started) == len(attempts) == 1


def test_starts_of_a_job_that_seemed_to_live_on_count_too(tell, store):
    """On another machine, a dead job counts as alive for a lease, so the schedule adopts it."""
    schedule, backend = tell([job("a")], {})
    run, attempts = store.run(job("a").run), []

    def ended(timeout):
        backend.running.clear()
        return [len(backend.started)]

    def changed(schedule, state):
        assert len(attempts) < 9
        if state is not None and state.handle is not None:
            attempts.append(run.claim({}))
        elif state is None and schedule.states[run.id].handle is None and attempts:
            attempts[-1].finish("killed")

    backend.ended, schedule.changed = ended, changed
    assert not schedule.execute()
    assert len(backend.started) == len(attempts) == 3


def test_a_signal_that_came_while_jobs_were_started_is_heeded_after(tell):
    jobs = [job("a", 2), job("b", 1)]
    schedule, backend = tell(jobs, {one.run: ["interrupted"] for one in jobs})
    signals = StopSignals()

    with signals, signals.held():
        schedule.check_for_stop = signals.check
        backend.ended = lambda timeout, ended=backend.ended: (
            ended(timeout)
            if backend.signals
            else os.kill(os.getpid(), signal.SIGTERM) or []
        )
        with pytest.raises(Stopped) as stopped:
            schedule.execute()
    assert stopped.value.code == 143
    assert [number for _, number in backend.signals] == [signal.SIGTERM] * 2


STORIES = {
    "one that fails stops no other": (
        {"a": ["nan"], "b": ["crash"], "c": ["done"]},
        {"a": 1, "b": 1, "c": 1},
        "nan",
    ),
    "out of memory, where nothing else was asked for": (
        {"a": ["out_of_gpu_memory"]},
        {"a": 1},
        "out_of_gpu_memory",
    ),
    "cut off: again, and not for ever": (
        {"a": ["interrupted"], "b": ["interrupted", "done"]},
        {"a": 3, "b": 2},
        "interrupted",
    ),
    "killed before its claim: again, and not for ever": (
        {"a": ["dropped"], "b": ["dropped", "done"]},
        {"a": 3, "b": 2},
        "start.log",
    ),
}


@pytest.mark.parametrize(("story", "starts", "reason"), STORIES.values(), ids=STORIES)
def test_runs_that_fail_are_tried_as_often_as_it_may_help(tell, story, starts, reason):
    jobs = {name: job(name) for name in story}
    ended = {
        name: Phase.DONE if "done" in words else Phase.FAILED
        for name, words in story.items()
    }
    schedule, backend = tell(
        [*jobs.values()], {jobs[name].run: [*story[name]] for name in story}
    )
    assert not schedule.execute()
    assert phases(schedule) == ended
    assert {name: backend.started.count(jobs[name].run) for name in story} == starts
    assert reason in schedule.states[jobs["a"].run].reason


def test_a_start_that_made_no_attempt_is_not_given_the_reason_of_an_earlier_one(
    tell, store
):
    schedule, backend = tell([job("a")], {job("a").run: ["nan"]})
    assert not schedule.execute()
    schedule, backend = tell([job("a")], {job("a").run: ["dropped"]})
    assert not schedule.execute()
    assert len(backend.started) == 3
    assert "start.log" in schedule.states[job("a").run].reason
    console = Console(file=io.StringIO())
    print_unfinished(console, schedule, {job("a").run: "a"})
    assert "log.txt" not in console.file.getvalue()


@pytest.mark.parametrize(
    ("trainer", "tried"), [({"micro_batches": "auto"}, [1, 2, 4]), ({}, [1])]
)
def test_a_run_out_of_gpu_memory_is_started_again_with_half_the_rows_at_a_time(
    tell, trainer, tried
):
    jobs = [job("a"), job("b")]
    words = ["out_of_gpu_memory", "out_of_gpu_memory", "done"]
    story = {jobs[0].run: words, jobs[1].run: ["out_of_host_memory"]}
    schedule, _ = tell(jobs, story, trainer=trainer)
    said = []
    schedule.changed = lambda _, state: state and said.append(state.reason)
    assert not schedule.execute()
    again = len(tried) > 1
    ended = Phase.DONE if again else Phase.FAILED
    assert phases(schedule) == {"a": ended, "b": Phase.FAILED}
    attempts = schedule.store.run(jobs[0].run).attempts()
    assert [one.info()["micro_batches"] for one in attempts] == tried
    assert any("uses 4 micro-batches" in reason for reason in said) == again


def test_what_a_queue_dropped_is_blocked_by_its_parent_or_handed_in_again(tell):
    """A job that is "dropped" has no attempt, because the queue never started it."""
    jobs = [job("p", 1), job("c", 9, "p"), job("q", 1), job("d", 9, "q")]
    story = {jobs[0].run: ["nan"], jobs[1].run: ["dropped"], jobs[2].run: ["interrupted", "done"],
             jobs[3].run: ["dropped", "done"]}  # fmt: skip
    schedule, queue = tell(jobs, story, slots=4)
    queue.queues = True
    assert not schedule.execute()
    ended = {"p": Phase.FAILED, "c": Phase.BLOCKED, "q": Phase.DONE, "d": Phase.DONE}
    assert phases(schedule) == ended
    assert jobs[0].run in schedule.states[jobs[1].run].reason
    assert queue.started.count(jobs[3].run) == 2


def test_what_only_the_engine_knows_ends_a_run_that_would_be_tried_again(tell):
    schedule, backend = tell([job("a")], {job("a").run: ["interrupted"]})
    backend.words = {1: "its job was cancelled"}
    assert not schedule.execute()
    assert backend.started == [job("a").run]
    assert schedule.states[job("a").run].reason == "its job was cancelled"


def test_a_full_disk_makes_every_run_wait_and_none_fail(tell):
    jobs = [job("a", 2), job("b", 1)]
    story = {jobs[0].run: ["disk_full"] * 5 + ["done"]}
    clock = map(float, count(1)).__next__
    schedule, backend = tell(
        jobs, story, slots=1, policy=policy(wait_s=4.0), clock=clock
    )
    assert schedule.execute()
    assert backend.started.count(jobs[0].run) == 6
    assert schedule.states[jobs[1].run].not_before > 0


def test_alike_failures_stop_the_sweep_and_what_waits_is_not_started(tell):
    jobs = [job(name, cost) for cost, name in enumerate("edcba")]
    story = {one.run: ["crash"] for one in jobs}
    schedule, backend = tell(jobs, story, slots=1, policy=policy(equal_failures=2))
    assert not schedule.execute()
    assert len(backend.started) == 2
    assert counts(schedule.states)[Phase.WAITING] == 3
    assert "2 runs in a row" in schedule.breaker.tripped


def test_a_hanging_run_is_signalled_said_to_hang_and_started_again(tell, store):
    schedule, backend = tell([job("a")], {})
    run, now, claimed = store.run(job("a").run), [0.0], []

    def ended(timeout):
        now[0] += 1.0
        if len(claimed) > 1:
            return [2]
        if not backend.signals or backend.signals[-1][1] is not signal.SIGKILL:
            return []
        claimed[0].finish("interrupted", "asked to stop")
        backend.running.clear()
        return [1]

    def changed(schedule, state):
        if state is not None and state.handle is not None:
            claimed.append(run.claim({}))
            if len(claimed) == 2:
                done(run, claimed[1])

    backend.ended, schedule.changed = ended, changed
    schedule.watchdog = Watchdog(5.0, 2.0, lambda: now[0])
    assert schedule.execute()
    sent = [number for _, number in backend.signals]
    assert sent == [DUMP, signal.SIGTERM, signal.SIGKILL]
    assert claimed[0].exit()["cause"] == "hang"


TRAINER = {"accelerator": "gpu", "devices": 2, "num_nodes": 1, "threads": 1}


@pytest.fixture
def swept(tell, store):
    """Return a function that sweeps five runs with a budget, one after the other.

    Each run takes half an hour on two devices, which is one device hour. The function returns
    whether all runs are done, the numbers of started and waiting runs, and why the breaker tripped.
    """

    def sweep(limit, chosen=0.0):
        jobs = [job(name) for name in "abcde"]
        spent = chosen + hours(store, [one.run for one in jobs])
        budget = {"policy": policy(budget_device_hours=limit), "spent_h": spent}
        left = [one for one in jobs if store.run(one.run).result() is None]
        schedule, backend = tell(left, {}, slots=1, trainer=TRAINER, **budget)
        done = schedule.execute()
        waiting = counts(schedule.states)[Phase.WAITING]
        return done, len(backend.started), waiting, schedule.breaker.tripped

    return sweep


def test_nothing_more_is_started_once_it_is_spent_and_typed_again_with_more_it_goes_on(
    swept,
):
    assert swept(2.0, chosen=1.5)[:3] == (False, 1, 4), "what tuning took counts"
    done, started, waiting, why = swept(2.0)
    assert (done, started, waiting) == (False, 1, 3)
    assert why.startswith("hydra.sweeper.budget_device_hours=2 is spent (2 in total)")
    assert swept(2.0)[:3] == (False, 0, 3)
    assert swept(3.5)[:3] == (False, 2, 1), (
        "what is under way when it is spent is let end"
    )
    assert swept(None) == (True, 1, 0, "")


@pytest.fixture
def asked(store, monkeypatch):
    """The paths in the outputs folder that the code opens, lists or passes to stat."""
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
    """The time of the poller's clock, in a list so that a test can set it."""
    now = [0.0]
    monkeypatch.setattr("sweeper.run.schedule.time.monotonic", lambda: now[0])
    return now


def begun(tell, store, count):
    jobs = [job(str(number)) for number in range(count)]
    tell(jobs, {})
    attempts = [store.run(one.run).claim({}) for one in jobs]
    return [JobState(one, Phase.RUNNING) for one in jobs], attempts


def test_a_run_that_gets_on_costs_one_question_a_poll(tell, store, asked, moments):
    states, attempts = begun(tell, store, 3)
    poller = StatusPoller(store, 30.0)
    for step in (1, 2):
        for attempt in attempts:
            attempt.heartbeat(step=step)
        asked.clear()
        assert poller.poll(states)
        moments[0] += 30.0
    runs = [state.job.run for state in states]
    assert sorted(asked) == [f"runs/{run}/attempts/0001/beat.json" for run in runs]
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
    assert poller.poll(states * MANY)  # twice as many runs as MANY
    moments[0] += 59.0
    assert not poller.poll(states * MANY)
    moments[0] += 1.0
    assert poller.poll(states)
