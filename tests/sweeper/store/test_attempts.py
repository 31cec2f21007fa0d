"""An attempt belongs to one process, lives as long as the process, and extends its run."""

import errno
import math
import os
import shutil
import signal

import pytest

from sweeper.store.attempts import Cause
from sweeper.store.runs import Run, RunStore, State
from tests.sweeper.store.conftest import LEASE, elsewhere, failing

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
    assert worker.stdout.readline() == "claimed\n"
    (attempt,) = run.attempts()
    assert attempt.alive()
    worker.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, worker.pid, os.WSTOPPED | os.WNOWAIT)
    assert attempt.alive()
    status = run.status()
    assert status.state is State.RUNNING
    assert status.reason == "running at step 400 of 1000 (attempt 1)"
    worker.kill()
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    assert not attempt.alive()
    status = run.status()
    assert status.state is State.INTERRUPTED
    assert status.reason == "killed at step 400 of 1000 (attempt 1)"


@pytest.mark.parametrize("age", [-86400, 86400])
def test_the_times_of_files_decide_nothing(run, watcher, now, age):
    attempt = Run(run.path, watcher).claim({})
    elsewhere(attempt)
    attempt.heartbeat(step=1)
    for path in attempt.path.rglob("*"):
        os.utime(path, (path.stat().st_atime + age, path.stat().st_mtime + age))
    assert attempt.alive()
    now[0] += LEASE - 1
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
    kept = {"steps": 7, "loss": "nan"}
    assert attempt.last_heartbeat() == {"beat": 3, "work": 0, "step": 5, **kept}


def test_a_beat_that_cannot_be_written_or_read_ends_nothing(run):
    attempt = run.claim({})
    with failing("pwrite", errno.ENOSPC):
        attempt.heartbeat(step=3)
    assert attempt.last_heartbeat() is None
    (attempt.path / "beat.json").write_bytes(b"\0" * 17)
    assert attempt.last_heartbeat() is None
    assert run.status().state is State.RUNNING


def test_the_first_word_about_the_end_stays(run):
    attempt = run.claim({})
    words = {"cause": "nan", "message": "loss is nan at step 7"}
    assert attempt.finish(*words.values())
    assert not attempt.finish("crash", "the process is gone")
    assert attempt.exit() == words
    assert not attempt.alive(), "though its process is"


def test_the_causes_are_those_of_the_format_and_others_are_refused(run):
    with pytest.raises(ValueError, match="bad luck"):
        run.claim({}).finish("bad luck")
    assert run.status().state is State.RUNNING
    assert [cause.value for cause in Cause] == (
        "done interrupted nan out_of_gpu_memory out_of_host_memory disk_full config data hang "
        "crash killed no_result"
    ).split()


@pytest.mark.parametrize(
    ("most", "end"),
    [
        (0, ""),
        (6, "third\n"),  # the length of the last line
        (5, "hird\n"),  # shorter than the last line, so a part of it is returned
        (12, "third\n"),
        (13, "second\nthird\n"),
        (999, "first\nsecond\nthird\n"),
    ],
)
def test_the_end_of_a_log_is_its_last_whole_lines_of_any_bytes(run, most, end):
    attempt = run.claim({})
    assert attempt.log_end(most) == ""
    attempt.log_path.write_text("first\nsecond\nthird\n")
    assert attempt.log_end(most) == end
    attempt.log_path.write_bytes(b"\xff\xfe\x00 said\n")
    assert attempt.log_end(99).endswith(" said\n")


CLAIM_MANY = """
import os, sys
from pathlib import Path
os.fsync = lambda descriptor: None  # about exclusion, not about power cuts
from sweeper.store.runs import Run
run = Run.open(Path(sys.argv[1]))
GO
print(*[run.claim({"owner": sys.argv[2]}).number for _ in range(20)])
"""


def test_two_processes_that_claim_20_times_never_get_the_same(run, race):
    first, second = (
        [int(word) for word in text.split()] for text in race(CLAIM_MANY, 2, run.path)
    )
    assert len(first) == len(second) == 20
    assert sorted(first + second) == list(range(1, 41))
    owners = {attempt.number: attempt.info()["owner"] for attempt in run.attempts()}
    assert owners == dict.fromkeys(first, "0") | dict.fromkeys(second, "1")


def test_a_failed_claim_leaves_no_attempt(run):
    with failing("write", errno.ENOSPC), pytest.raises(OSError, match="No space left"):
        run.claim({})
    assert list((run.path / "attempts").iterdir()) == []
    assert run.claim({}).number == 1


@pytest.mark.parametrize(
    "intrude",
    [lambda first, taken: taken.touch(), os.symlink, shutil.copytree],
    ids=["file", "link", "attempt"],
)
def test_a_number_that_is_taken_is_passed_over(run, intrude, monkeypatch):
    first = run.claim({})
    intrude(first.path, run.path / "attempts" / "0002")
    # The attempts were listed before the intruder came.
    monkeypatch.setattr(run, "attempts", lambda: [first])
    assert run.claim({}).number == 3
    assert first.info()["number"] == 1


def test_attempts_that_only_heartbeats_tell_dead_are_waited_for_at_once(
    run, watcher, now
):
    run = Run(run.path, watcher)
    for step in (1, 2):
        attempt = run.claim({})
        elsewhere(attempt)
        attempt.heartbeat(step=step)
    assert run.status().attempt == 2
    now[0] += LEASE
    assert run.status().state is State.INTERRUPTED


def test_the_copy_of_a_run_in_training_is_not_in_training(run, tmp_path):
    run.claim({}).heartbeat(step=3)
    shutil.copytree(run.outputs, tmp_path / "copy")
    assert RunStore(tmp_path / "copy").run(run.id).status().state is State.INTERRUPTED
    assert run.status().state is State.RUNNING
    run.outputs.rename(tmp_path / "moved")
    assert RunStore(tmp_path / "moved").run(run.id).status().state is State.RUNNING


@pytest.mark.parametrize(
    ("owner", "left"),
    [
        ({"pid_started": -1}, False),  # dead
        ({"pid": os.getpid()}, True),  # alive
        ({"boot": "x", "host": "another"}, True),
    ],
)
def test_only_leftovers_of_the_dead_are_removed(run, owner, left):
    attempt = run.claim({})
    elsewhere(attempt, **owner)
    half = attempt.checkpoint_dir / ".step-00000007.ckpt.0123456789abcdef.tmp"
    whole = attempt.checkpoint_dir / "step-00000005.ckpt"
    for path in (half, whole):
        path.write_text("a checkpoint")
    run.claim({})
    assert half.exists() == left
    assert whole.exists()


def test_what_is_no_attempt_is_not_listed(run, tmp_path):
    run.claim({})
    folder = run.path / "attempts"
    (folder / ".claim.0123456789abcdef.tmp").mkdir()
    (folder / "0007").write_text("a file")
    (folder / "0011").symlink_to(tmp_path)
    (folder / "notes").mkdir()
    assert [attempt.number for attempt in run.attempts()] == [1]


def attempt_with(run, continues, resumed_from, last, label):
    attempt = run.claim({"continues": continues, "resumed_from": resumed_from})
    with attempt.metrics() as metrics:
        for step in range(resumed_from + 1, last + 1):
            metrics.write({"step": step, "train/loss": float(step), "by": label})
    attempt.finish("interrupted")
    return attempt


HISTORIES = {
    "two resumes": (
        [(0, 0, 7), (1, 5, 13), (2, 11, 17)],
        None,
        "11111222222333333",
    ),
    "beyond the resumed step nothing counts": (
        [(0, 0, 17), (1, 5, 7)],
        None,
        "1111122",
    ),
    "a restart from nothing supersedes all": ([(0, 0, 7), (0, 0, 3)], None, "222"),
    "an attempt that came to nothing": (
        [(0, 0, 7), (0, 0, 2), (1, 5, 7)],
        None,
        "1111133",
    ),
    "a done run ends with the attempt that finished it": (
        [(0, 0, 13), (1, 5, 7)],
        1,
        "1" * 13,
    ),
}


@pytest.mark.parametrize(
    ("spans", "winner", "expected"), HISTORIES.values(), ids=HISTORIES
)
def test_attempts_add_up_to_the_history_of_one_run(run, spans, winner, expected):
    attempts = [
        attempt_with(run, *span, str(number)) for number, span in enumerate(spans, 1)
    ]
    if winner:
        run.publish_result(attempts[winner - 1], {"metrics": {}, "steps": 1000})
    history = [(row["step"], row["by"]) for row in run.history()]
    assert history == [*enumerate(expected, 1)], "each step once, in order"


def test_a_row_that_a_resumed_attempt_writes_at_the_step_it_resumed_at_joins(run):
    """A job that stopped in the validation of step 5 resumes at step 5 and validates again."""
    attempt_with(run, 0, 0, 5, "first")
    with run.claim({"continues": 1, "resumed_from": 5}).metrics() as metrics:
        metrics.write({"step": 5, "validation/loss": 2.0})
        metrics.write({"step": 5, "best": True})
    joined = {"train/loss": 5.0, "by": "first", "validation/loss": 2.0, "best": True}
    assert run.history()[-1] == {"step": 5, **joined}


def test_checkpoints_come_newest_step_first_over_all_attempts(run):
    for steps in ((5, 700, 1100), (700, 900)):
        folder = run.claim({}).checkpoint_dir
        for step in steps:
            (folder / f"step-{step:08d}.ckpt").touch()
        (folder / f"step-{step:08d}.ckpt.sha256").touch()
        (folder / ".step-00009999.ckpt.0123.tmp").touch()
        (folder / "step-00008888.ckpt").symlink_to("/etc/passwd")
        (folder / "step-00007777.ckpt").mkdir()
    found = [f"{path.parts[-3]} {path.name}" for path in run.checkpoints()]
    assert found == [
        "0001 step-00001100.ckpt",
        "0002 step-00000900.ckpt",
        "0002 step-00000700.ckpt",
        "0001 step-00000700.ckpt",
        "0001 step-00000005.ckpt",
    ]
