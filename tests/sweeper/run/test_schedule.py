"""Tests of the schedule with a backend that trains nothing: order, retries, budget and polls."""

import os
import signal
from copy import deepcopy
from functools import partial
from itertools import count
from unittest.mock import Mock

import pytest
from rich.console import Console

from sweeper.run.backend import Job
from sweeper.run.failures import DUMP, Watchdog, hours
from sweeper.run.schedule import MANY, Phase, StatusPoller
from sweeper.run.stop import Stopped, StopSignals
from sweeper.stages.publish import print_unfinished
from sweeper.store.runs import State
from tests.policies import policy
from tests.sweeper.run.conftest import act, phases


def test_longest_first_never_more_than_the_slots_and_nothing_that_is_done(tell, store):
    schedule, backend = tell(map(Job, "abcde", (1, 5, 3, 9, 7)))
    act(store.run("e"), "done")
    assert schedule.execute()
    assert backend.started == "dbca"


def test_a_run_that_waits_for_room_is_overtaken_by_none(tell):
    schedule, backend = tell("abc")
    grant, asked = backend.grant, []

    def one_at_a_time(job, free):
        asked.append(job.run)
        return None if job.run == "b" and len(free) < 2 else grant(job, free)

    backend.grant = one_at_a_time
    assert schedule.execute()
    assert backend.started == "abc"
    assert asked == [*"abbc"]


def test_a_run_of_another_sweep_is_adopted_and_counts_against_the_slots(tell, store):
    schedule, backend = tell("abc", slots=1)
    run = store.run("a")
    # The process of this test trains the run, like that of another sweep.
    other = run.claim({})
    looks = []

    def changed(schedule, state):
        looks.append(len(backend.started))
        if len(looks) == 4:
            act(run, "done", other)

    schedule.changed = changed
    assert schedule.execute()
    assert backend.started == "bc"
    assert looks[3] == 0  # no job started while the only slot was taken


def test_an_adopted_run_keeps_the_slot_of_its_gpu(tell, store):
    schedule, backend = tell("ab")
    backend.devices = ("GPU-1a", "GPU-2a").__getitem__
    run = store.run("a")
    other = run.claim({"visible_gpus": "GPU-1a"})
    run.claim({"visible_gpus": "GPU-2a"}).finish("interrupted")
    slots = []

    def changed(schedule, state):
        slots.extend(slot for _, _, slot in backend.running)
        if slots:
            act(run, "done", other)

    schedule.changed = changed
    assert schedule.execute()
    assert set(slots) == {1}


def test_parents_go_first_and_a_failed_parent_blocks_its_children_by_name(tell):
    jobs = [
        Job("c", 9, "p"),
        Job("d", 9, "q"),
        Job("p", 1),
        Job("q", 1),
        Job("e", 9, "d"),
    ]
    schedule, backend = tell(jobs, story={"q": ["crash"]})
    assert not schedule.execute()
    ended = {"p": "done", "c": "done", "q": "failed", "d": "blocked", "e": "blocked"}
    assert phases(schedule) == ended
    assert backend.started.index("p") < backend.started.index("c")
    assert schedule.states["d"].reason == "its parent q failed"
    assert schedule.states["e"].reason == "its parent d is blocked"


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_asks_jobs_to_save_and_starts_nothing_more_and_a_second_stops_them(
    tell, presses
):
    story = {"a": [*["ctrl-c"] * presses, "interrupted"], "b": ["interrupted"]}
    schedule, backend = tell("abc", story=story)
    with pytest.raises(KeyboardInterrupt):
        schedule.execute()
    asked = [signal.SIGTERM, signal.SIGKILL][:presses]
    assert backend.signals == [(job, number) for number in asked for job in (1, 2)]
    if presses == 1:
        assert phases(schedule) == {"a": "stopped", "b": "stopped", "c": "waiting"}
        assert "interrupted" in schedule.states["a"].reason


def test_what_failed_before_or_while_a_sweep_is_stopped_has_failed(tell):
    story = {"a": ["nan"], "b": ["ctrl-c", "interrupted"], "c": ["nan"]}
    schedule, _ = tell("abcd", story=story)
    with pytest.raises(KeyboardInterrupt):
        schedule.execute()
    ended = {"a": "failed", "b": "stopped", "c": "failed"}
    assert phases(schedule) == {**ended, "d": "waiting"}


@pytest.fixture
def living(tell, store):
    """Return a function that makes the schedule of a run whose jobs do not end by themselves."""

    def living(adopted=lambda attempt: None):
        """Return the schedule, its backend, and the attempts, one for each job that starts.

        `adopted` is called with the newest attempt while it has no job of this schedule.
        """
        schedule, backend = tell("a")
        attempts = []

        def changed(schedule, state):
            if state is not None and state.handle is not None:
                assert len(attempts) < 9
                attempts.append(store.run("a").claim({}))
            elif state is None and attempts and schedule.states["a"].handle is None:
                adopted(attempts[-1])

        schedule.changed = changed
        return schedule, backend, attempts

    return living


def test_a_job_whose_server_is_gone_but_which_lives_is_adopted(living, store):
    """The backend reports the end of the job, but its heartbeats show that it still trains."""
    schedule, backend, attempts = living(partial(act, store.run("a"), "done"))
    backend.ended = lambda timeout: [1]
    assert schedule.execute()
    assert len(backend.started) == len(attempts) == 1


def test_a_run_that_trains_again_when_it_is_settled_has_not_failed(living, store):
    schedule, _, _ = living()
    state = schedule.states["a"]
    store.run("a").claim({})  # another sweep has begun it again
    schedule._move(state, Phase.RUNNING)
    state.own = True
    schedule._settle(state)
    assert state.phase is Phase.RUNNING


def test_starts_of_a_job_that_seemed_to_live_on_count_too(living):
    """On another machine, a dead job counts as alive for a lease, so the schedule adopts it."""
    schedule, backend, attempts = living(lambda attempt: attempt.finish("killed"))

    def ended(timeout):
        backend.running.clear()
        return [len(backend.started)]

    backend.ended = ended
    assert not schedule.execute()
    assert len(backend.started) == len(attempts) == 3


def test_a_signal_that_came_while_jobs_were_started_is_heeded_after(tell):
    schedule, backend = tell("ab", story={name: ["interrupted"] for name in "ab"})
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
        "abc",
        "nan",
    ),
    "cut off: again, and not for ever": (
        {"a": ["interrupted"], "b": ["interrupted", "done"]},
        "aaabb",
        "interrupted",
    ),
}


@pytest.mark.parametrize(("story", "starts", "reason"), STORIES.values(), ids=STORIES)
def test_runs_that_fail_are_tried_as_often_as_it_may_help(tell, story, starts, reason):
    ended = {
        name: "done" if "done" in words else "failed" for name, words in story.items()
    }
    schedule, backend = tell(story, story=deepcopy(story))
    assert not schedule.execute()
    assert phases(schedule) == ended
    assert sorted(backend.started) == [*starts]
    assert reason in schedule.states["a"].reason


def test_a_start_that_made_no_attempt_is_not_given_the_reason_of_an_earlier_one(
    tell, capsys
):
    for cause in ("nan", "dropped"):
        schedule, backend = tell("a", story={"a": [cause]})
        assert not schedule.execute()
    assert len(backend.started) == 3
    assert "start.log" in schedule.states["a"].reason
    print_unfinished(Console(), schedule, {"a": "a"})
    assert "log.txt" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("trainer", "tried"), [({"micro_batches": "auto"}, [1, 2, 4]), ({}, [1])]
)
def test_a_run_out_of_gpu_memory_is_started_again_with_half_the_rows_at_a_time(
    tell, trainer, tried
):
    words = ["out_of_gpu_memory", "out_of_gpu_memory", "done"]
    story = {"a": words, "b": ["out_of_host_memory"]}
    schedule, _ = tell("ab", story=story, trainer=trainer)
    said = []
    schedule.changed = lambda _, state: state and said.append(state.reason)
    assert not schedule.execute()
    again = len(tried) > 1
    assert phases(schedule) == {"a": "done" if again else "failed", "b": "failed"}
    attempts = schedule.store.run("a").attempts()
    assert [one.info()["micro_batches"] for one in attempts] == tried
    assert any("uses 4 micro-batches" in reason for reason in said) == again


def test_what_only_the_engine_knows_ends_a_run_that_would_be_tried_again(tell):
    schedule, backend = tell("a", story={"a": ["interrupted"]})
    backend.exit_reason = lambda job: "its job was cancelled"
    assert not schedule.execute()
    assert backend.started == "a"
    assert schedule.states["a"].reason == "its job was cancelled"


def test_a_full_disk_makes_every_run_wait_and_none_fail(tell):
    waits = {"policy": policy(wait_s=4.0), "clock": count(1).__next__}
    story = {"a": ["disk_full"] * 5 + ["done"]}
    schedule, backend = tell("ab", slots=1, story=story, **waits)
    assert schedule.execute()
    assert backend.started.count("a") == 6
    assert schedule.states["b"].not_before > 0


def test_alike_failures_stop_the_sweep_and_what_waits_is_not_started(tell):
    story = {name: ["crash"] for name in "vwxyz"}
    few = policy(equal_failures=2)
    schedule, backend = tell(story, slots=1, story=story, policy=few)
    assert not schedule.execute()
    assert backend.started == "vw"
    assert [*phases(schedule).values()].count("waiting") == 3
    assert "2 runs in a row" in schedule.breaker.tripped


def test_a_hanging_run_is_signalled_said_to_hang_and_started_again(living, store):
    schedule, backend, claimed = living()
    now = [0.0]

    def ended(timeout):
        now[0] += 1.0
        if len(claimed) > 1:
            act(store.run("a"), "done", claimed[1])
            return [2]
        if not backend.signals or backend.signals[-1][1] is not signal.SIGKILL:
            return []
        claimed[0].finish("interrupted", "asked to stop")
        backend.running.clear()
        return [1]

    backend.ended = ended
    schedule.watchdog = Watchdog(5.0, 2.0, lambda: now[0])
    assert schedule.execute()
    sent = [number for _, number in backend.signals]
    assert sent == [DUMP, signal.SIGTERM, signal.SIGKILL]
    assert claimed[0].exit()["cause"] == "hang"


def test_a_hang_is_noted_in_no_attempt_that_another_sweep_has_begun(
    living, store, monkeypatch
):
    schedule, _, _ = living()
    state, run = schedule.states["a"], store.run("a")
    first = run.claim({})
    first.finish("interrupted")
    schedule.watchdog = Mock(hung=lambda name: "no progress")
    status = type(run).status

    def then(self):
        found = status(self)
        if len(run.attempts()) == 1:
            run.claim({})
        return found

    monkeypatch.setattr(type(run), "status", then)
    schedule._settle(state)
    first, second = run.attempts()
    assert (first.exit()["cause"], second.exit()) == ("hang", None)


TRAINER = {"accelerator": "gpu", "devices": 2, "num_nodes": 1, "threads": 1}


def test_nothing_more_is_started_once_it_is_spent_and_typed_again_with_more_it_goes_on(
    tell, store
):
    """Each run takes half an hour on two devices, which is one device hour."""

    def sweep(limit, chosen=0.0):
        spent = chosen + hours(store, "abcde")
        budget = {"policy": policy(budget_device_hours=limit), "spent_h": spent}
        left = [run for run in "abcde" if store.run(run).result() is None]
        schedule, backend = tell(left, slots=1, trainer=TRAINER, **budget)
        done = schedule.execute()
        waiting = [*phases(schedule).values()].count("waiting")
        return done, len(backend.started), waiting, schedule.breaker.tripped

    assert sweep(2.0, chosen=1.5)[:3] == (False, 1, 4), "what tuning took counts"
    done, started, waiting, why = sweep(2.0)
    assert (done, started, waiting) == (False, 1, 3)
    assert why.startswith(
        "hydra.sweeper.budget_device_hours=2 is spent: the finished runs took 2 device hours;"
    )
    assert sweep(2.0)[:3] == (False, 0, 3)
    assert sweep(3.5)[:3] == (False, 2, 1), (
        "what is under way when it is spent is let end"
    )
    assert sweep(None) == (True, 1, 0, "")


@pytest.fixture
def moments(monkeypatch):
    """The time of the poller's clock, in a list so that a test can set it."""
    now = [0.0]
    monkeypatch.setattr("sweeper.run.schedule.time.monotonic", lambda: now[0])
    return now


def begun(tell, store, names):
    schedule, _ = tell(names)
    attempts = [store.run(run).claim({}) for run in names]
    return [*schedule.states.values()], attempts


def test_a_run_that_gets_on_costs_one_question_a_poll(
    tell, store, moments, monkeypatch
):
    states, attempts = begun(tell, store, "abc")
    asked = []

    def noted(call, path, *arguments, **options):
        if str(path).startswith(str(store.outputs)):
            asked.append(os.path.relpath(path, store.outputs))
        return call(path, *arguments, **options)

    for name in ("open", "stat", "lstat", "scandir"):
        monkeypatch.setattr(os, name, partial(noted, getattr(os, name)))
    poller = StatusPoller(store, 30.0)
    for step in (1, 2):
        for attempt in attempts:
            attempt.heartbeat(step=step)
        asked.clear()
        assert poller.poll(states)
        moments[0] += 30.0
    assert asked == [f"runs/{run}/attempts/0001/beat.json" for run in "abc"]
    assert [s.status.heartbeat["step"] for s in states] == [2] * 3
    assert {s.status.state for s in states} == {State.RUNNING}


def test_a_run_whose_heartbeat_stands_still_is_looked_at_in_full(tell, store, moments):
    [state], [attempt] = begun(tell, store, "a")
    attempt.heartbeat(step=1)
    poller = StatusPoller(store, 30.0)
    assert poller.poll([state])
    attempt.finish("crash", "no more")
    moments[0] += 30.0
    assert poller.poll([state])
    assert state.status.state is State.FAILED


def test_of_many_runs_each_is_looked_at_the_more_rarely(tell, store, moments):
    states, _ = begun(tell, store, "ab")
    poller = StatusPoller(store, 30.0)
    assert poller.poll(states * MANY)  # twice as many runs as MANY
    moments[0] += 59.0
    assert not poller.poll(states * MANY)
    moments[0] += 1.0
    assert poller.poll(states)


def test_runs_start_by_rank_and_then_by_cost(tell):
    jobs = [Job("a", 1.0, rank=1), Job("b", 9.0, rank=1), Job("c", 2.0)]
    schedule, backend = tell(jobs, slots=1)
    assert schedule.execute()
    assert backend.started == "cba"
