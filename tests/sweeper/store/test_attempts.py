"""An attempt lives as long as its process does, and tells what became of it."""

from __future__ import annotations

import math
import os
import signal

import pytest

from sweeper.store.attempts import Cause
from sweeper.store.files import read_json
from sweeper.store.liveness import Watcher
from sweeper.store.metrics import read_metrics
from sweeper.store.runs import Run, State

CLAIM_AND_WAIT = """
import sys
from pathlib import Path
from sweeper.store.runs import Run
attempt = Run.open(Path(sys.argv[1])).claim({"resumed_from": 0})
attempt.heartbeat(step=400, steps=1000)
print("claimed", flush=True)
input()
"""


def test_a_killed_worker_is_seen_dead_and_a_stopped_one_alive(run, start):
    worker = start(CLAIM_AND_WAIT, run.path)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "claimed\n"
    (attempt,) = run.attempts()
    assert attempt.alive()
    worker.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, worker.pid, os.WSTOPPED | os.WNOWAIT)
    assert attempt.alive()
    status = run.status()
    assert (status.state, status.attempt) == (State.RUNNING, 1)
    assert status.reason == "running at step 400 of 1000 (attempt 1)"
    assert status.heartbeat == {"beat": 1, "work": 0, "step": 400, "steps": 1000}
    worker.kill()
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    assert not attempt.alive()
    status = run.status()
    assert status.state is State.INTERRUPTED
    assert status.reason == "killed at step 400 of 1000 (attempt 1)"


def test_an_attempt_that_finished_is_not_alive_though_its_process_is(run):
    attempt = run.claim({})
    assert attempt.alive()
    attempt.finish("interrupted")
    assert not attempt.alive()


@pytest.mark.parametrize("age", [-86400, 86400], ids=["yesterday", "tomorrow"])
def test_the_times_of_files_decide_nothing(store, run, age):
    now = [1009.0]
    run = Run(run.path, Watcher(lease=89.0, clock=lambda: now[0]))
    attempt = run.claim({})
    foreign = read_json(attempt.path / "attempt.json") | {"host": "another", "boot": "another"}
    (attempt.path / "attempt.json").write_text(str(foreign).replace("'", '"'))
    attempt.heartbeat(step=1)
    for path in attempt.path.rglob("*"):
        os.utime(path, (path.stat().st_atime + age, path.stat().st_mtime + age))
    assert attempt.alive()
    now[0] += 88
    assert attempt.alive()
    now[0] += 1
    assert not attempt.alive()
    attempt.heartbeat()
    assert attempt.alive(), "a new beat is life, whatever the times say"


def test_a_beat_keeps_what_it_is_not_told_anew(run):
    attempt = run.claim({})
    attempt.heartbeat(step=3, steps=7, loss=math.nan)
    attempt.heartbeat()
    attempt.heartbeat(step=5)
    assert attempt.last_heartbeat() == {"beat": 3, "work": 0, "step": 5, "steps": 7, "loss": "nan"}


def test_a_beat_that_cannot_be_written_or_read_ends_nothing(run, monkeypatch):
    attempt = run.claim({})

    def refuse(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        attempt.heartbeat(step=3)
    assert attempt.last_heartbeat() is None
    (attempt.path / "beat.json").write_bytes(b"\0" * 17)
    assert attempt.last_heartbeat() is None
    assert run.status().state is State.RUNNING


def test_the_first_word_about_the_end_stays(run):
    attempt = run.claim({})
    assert attempt.finish("nan", "loss is nan at step 7", "Traceback")
    assert not attempt.finish("crash", "the process is gone")
    assert attempt.exit() == {
        "cause": "nan",
        "message": "loss is nan at step 7",
        "traceback": "Traceback",
    }


def test_a_cause_nobody_knows_is_refused(run):
    with pytest.raises(ValueError, match="bad luck"):
        run.claim({}).finish("bad luck")
    assert run.status().state is State.RUNNING


def test_the_metrics_of_an_attempt_lie_below_it(run):
    attempt = run.claim({})
    with attempt.metrics() as metrics:
        metrics.write({"step": 3, "train/loss": 2.5})
        metrics.sync()
    assert read_metrics(attempt.path / "metrics.jsonl") == ([{"step": 3, "train/loss": 2.5}], 0)


def test_the_causes_are_those_of_the_format():
    assert [cause.value for cause in Cause] == [
        "done",
        "interrupted",
        "nan",
        "out_of_gpu_memory",
        "out_of_host_memory",
        "disk_full",
        "config",
        "data",
        "hang",
        "crash",
        "killed",
        "no_result",
    ]


@pytest.mark.parametrize(
    ("most", "end"),
    [
        (0, ""),
        (6, "third\n"),  # as many bytes as the line has: it is whole
        (5, "hird\n"),  # no line fits, so a part of one
        (12, "third\n"),
        (13, "second\nthird\n"),
        (19, "first\nsecond\nthird\n"),
        (999, "first\nsecond\nthird\n"),
    ],
)
def test_the_end_of_a_log_is_its_last_whole_lines(run, most, end):
    attempt = run.claim({})
    assert attempt.log_end(most) == ""
    attempt.log_path.write_text("first\nsecond\nthird\n")
    assert attempt.log_end(most) == end


def test_a_log_of_any_bytes_has_an_end(run):
    attempt = run.claim({})
    attempt.log_path.write_bytes(b"\xff\xfe\x00 said\n")
    assert attempt.log_end(99).endswith(" said\n")
