"""The state of a run is derived from its directory, with a reason that a person can read."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.store.attempts import Attempt
from sweeper.store.liveness import Watcher
from sweeper.store.runs import State

RESULT = {"metrics": {"test/loss": 3.25}, "steps": 1000, "weights_sha256": "0" * 64}


def test_a_run_nobody_tried_is_new(run):
    assert run.status().state is State.NEW
    assert run.status().attempt == 0


@pytest.mark.parametrize(
    ("cause", "state", "reason"),
    [
        ("interrupted", State.INTERRUPTED, "interrupted at step 3 of 7 (attempt 2)"),
        ("out_of_gpu_memory", State.FAILED, "out_of_gpu_memory: 3 GiB asked (attempt 2)"),
        ("nan", State.FAILED, "nan: 3 GiB asked (attempt 2)"),
        (
            "done",
            State.FAILED,
            "no_result: it says that it finished, but published no result (attempt 2)",
        ),
    ],
)
def test_the_newest_attempt_decides(run, cause, state, reason):
    run.claim({}).finish("crash", "an older story")
    attempt = run.claim({})
    attempt.heartbeat(step=3, steps=7)
    attempt.finish(cause, "3 GiB asked")
    status = run.status()
    assert (status.state, status.reason, status.attempt) == (state, reason, 2)


def test_an_attempt_under_way_makes_a_failed_run_running(run):
    run.claim({}).finish("crash")
    run.claim({})
    assert run.status().state is State.RUNNING
    assert run.status().reason == "running before its first step (attempt 2)"


def test_a_result_published_while_the_state_is_read_is_not_missed(run, monkeypatch):
    attempt = run.claim({})
    real = Attempt.alive

    def finishes_meanwhile(self, heartbeat):
        run.publish_result(attempt, RESULT)
        attempt.finish("done")
        return real(self, heartbeat)

    monkeypatch.setattr(Attempt, "alive", finishes_meanwhile)
    assert run.status().state is State.DONE


def test_a_last_word_said_while_the_state_is_read_is_not_missed(run, monkeypatch):
    attempt = run.claim({})

    def fails_just_after(*asked):
        attempt.finish("nan", "loss is nan")
        return True

    monkeypatch.setattr(Watcher, "alive", fails_just_after)
    assert run.status().state is State.FAILED


@pytest.mark.parametrize("name", ["result.json", "attempts/0001/exit.json"])
@pytest.mark.parametrize("content", [b"\0" * 101, b'{"format": 1}', b"[]", b"{"], ids=repr)
def test_a_damaged_file_is_the_reason_and_stops_no_survey(run, name, content):
    attempt = run.claim({})
    attempt.finish("crash")
    (run.path / name).write_bytes(content)
    status = run.status()
    assert status.state is State.FAILED
    assert Path(name).name in status.reason
    assert status.reason.isprintable()


def test_a_failure_message_cannot_disturb_the_terminal(run):
    run.claim({}).finish("data", "row 3:\n\x1b[31m forged line \u202e" + "x" * 10007)
    reason = run.status().reason
    assert reason.isprintable()
    assert len(reason) < 400
