"""What a schedule makes of failures: what is started again, not for ever; what stops the rest."""

from __future__ import annotations

import signal

import pytest

from sweeper.run.backend import Phase, counts
from sweeper.run.failures import Breaker, OnOom
from sweeper.run.watchdog import DUMP, Watchdog
from tests.policies import policy
from tests.sweeper.run.stories import Queue, job, phases


def test_one_failing_run_never_stops_the_others(tell):
    jobs = [job(name) for name in "abcde"]
    schedule, backend = tell(jobs, {jobs[1].run: ["nan"], jobs[3].run: ["crash"]})
    assert not schedule.execute()
    assert counts(schedule.states) == {
        Phase.WAITING: 0,
        Phase.RUNNING: 0,
        Phase.DONE: 3,
        Phase.FAILED: 2,
        Phase.BLOCKED: 0,
    }
    assert "nan" in schedule.states[jobs[1].run].reason
    assert len(backend.started) == 5


def test_a_run_out_of_gpu_memory_is_started_again_with_half_the_rows_at_a_time(tell):
    jobs = [job("a"), job("b")]
    words = ["out_of_gpu_memory", "out_of_gpu_memory", "done"]
    schedule, _ = tell(jobs, {jobs[0].run: words, jobs[1].run: ["out_of_host_memory"]})
    schedule.policy = policy(on_oom=OnOom.halve, tries=1)
    said = []
    schedule.changed = lambda _, state: state and said.append(state.reason)
    assert not schedule.execute()
    assert phases(schedule) == {"a": Phase.DONE, "b": Phase.FAILED}
    tried = [one.info()["micro_batches"] for one in schedule.store.run(jobs[0].run).attempts()]
    assert tried == [1, 2, 4]
    assert any("each batch in 4 parts" in reason for reason in said)


@pytest.mark.parametrize(("fail_fast", "tried"), [(False, [1, 2]), (True, [1])])
def test_a_run_may_ask_for_half_the_rows_itself(tell, fail_fast, tried):
    one = job("a")
    schedule, _ = tell([one], {one.run: ["out_of_gpu_memory", "done"]}, micro_batches="auto")
    schedule.policy = policy(fail_fast=fail_fast)
    assert schedule.execute() != fail_fast
    attempts = schedule.store.run(one.run).attempts()
    assert [attempt.info()["micro_batches"] for attempt in attempts] == tried


def test_a_run_out_of_gpu_memory_has_failed_where_nothing_else_was_asked_for(tell):
    jobs = [job("a")]
    schedule, backend = tell(jobs, {jobs[0].run: ["out_of_gpu_memory"]})
    assert not schedule.execute()
    assert len(backend.started) == 1


def test_a_run_that_was_cut_off_is_started_again_and_not_for_ever(tell):
    jobs = [job("a"), job("b")]
    schedule, backend = tell(
        jobs, {jobs[0].run: ["interrupted", "done"], jobs[1].run: ["interrupted"]}
    )
    assert not schedule.execute()
    assert phases(schedule) == {"a": Phase.DONE, "b": Phase.FAILED}
    assert backend.started.count(jobs[0].run) == 2
    assert backend.started.count(jobs[1].run) == 3


def test_a_job_that_ended_before_it_had_begun_is_started_again_and_not_for_ever(tell):
    """Killed before its claim, or met by a disk that was full until a moment ago."""
    jobs = [job("a"), job("b")]
    schedule, backend = tell(jobs, {jobs[0].run: ["dropped", "done"], jobs[1].run: ["dropped"]})
    assert not schedule.execute()
    assert phases(schedule) == {"a": Phase.DONE, "b": Phase.FAILED}
    assert backend.started.count(jobs[1].run) == 3
    assert "start.log" in schedule.states[jobs[1].run].reason


def test_what_a_queue_dropped_is_blocked_by_its_parent_or_handed_in_again(tell, store):
    """ "dropped" leaves no attempt, as a job does that its engine never started."""
    jobs = [job("p", 1), job("c", 9, "p"), job("q", 1), job("d", 9, "q")]
    schedule, _ = tell(jobs, {})
    story = {jobs[0].run: ["nan"], jobs[1].run: ["dropped"], jobs[2].run: ["interrupted", "done"],
             jobs[3].run: ["dropped", "done"]}  # fmt: skip
    schedule.backend = queue = Queue(store, story, 4)
    assert not schedule.execute()
    assert phases(schedule) == {
        "p": Phase.FAILED,
        "c": Phase.BLOCKED,
        "q": Phase.DONE,
        "d": Phase.DONE,
    }
    assert jobs[0].run in schedule.states[jobs[1].run].reason
    assert queue.started.count(jobs[3].run) == 2


def test_what_only_the_engine_knows_ends_a_run_that_would_be_tried_again(tell):
    jobs = [job("a")]
    schedule, backend = tell(jobs, {jobs[0].run: ["interrupted"]})
    backend.words = {1: "its job was cancelled"}
    assert not schedule.execute()
    assert backend.started == [jobs[0].run]
    assert schedule.states[jobs[0].run].reason == "its job was cancelled"


def test_a_full_disk_makes_every_run_wait_and_none_fail(tell, store):
    jobs = [job("a", 2), job("b", 1)]
    schedule, backend = tell(jobs, {jobs[0].run: ["disk_full"] * 5 + ["done"]}, slots=1)
    now = [0.0]

    def tick():
        now[0] += 1.0
        return now[0]

    schedule.policy, schedule.clock = policy(wait_s=4.0), tick
    assert schedule.execute()
    assert backend.started.count(jobs[0].run) == 6
    assert schedule.states[jobs[1].run].not_before > 0


def test_alike_failures_stop_the_sweep_and_what_waits_is_not_started(tell):
    jobs = [job(name, cost) for cost, name in enumerate("edcba")]
    schedule, backend = tell(jobs, {one.run: ["crash"] for one in jobs}, slots=1)
    schedule.policy = policy(equal_failures=2)
    schedule.breaker = Breaker(schedule.policy)
    assert not schedule.execute()
    assert len(backend.started) == 2
    assert counts(schedule.states)[Phase.WAITING] == 3
    assert "2 runs in a row" in schedule.breaker.tripped


def test_a_hanging_run_is_signalled_said_to_hang_and_started_again(tell, store):
    jobs = [job("a")]
    schedule, backend = tell(jobs, {})
    run, now, claimed = store.run(jobs[0].run), [0.0], []

    def ended(timeout):
        now[0] += 1.0
        if not backend.signals or backend.signals[-1][1] is not signal.SIGKILL or len(claimed) > 1:
            return [2] if len(claimed) > 1 else []
        claimed[0].finish("interrupted", "asked to stop")
        backend.running.clear()
        return [1]

    def changed(schedule, state):
        if state is not None and state.handle is not None:
            claimed.append(run.claim({}))
            if len(claimed) == 2:
                run.publish_result(claimed[1], {"metrics": {}, "steps": 1})
                claimed[1].finish("done")

    backend.ended, schedule.changed = ended, changed
    schedule.watchdog = Watchdog(5.0, 2.0, lambda: now[0])
    assert schedule.execute()
    assert [number for _, number in backend.signals] == [DUMP, signal.SIGTERM, signal.SIGKILL]
    assert claimed[0].exit()["cause"] == "hang"
