"""Tests of the detection of dead processes, and of locks."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from sweeper.store import liveness
from sweeper.store.files import publish_json
from sweeper.store.liveness import (
    HeartbeatFile,
    Watcher,
    alive,
    identity,
    read_heartbeat,
    send,
)
from tests.sweeper.store.conftest import LEASE

TELL = """
import json
from sweeper.store.liveness import identity
print(json.dumps(identity()), flush=True)
input()
"""


def test_only_the_process_meant_is_signalled_and_then_it_is_dead(start):
    process = start(TELL)
    info = json.loads(process.stdout.readline())
    assert info["pid"] == process.pid
    recycled = info | {"pid_started": info["pid_started"] - 1}
    assert alive(recycled) is False
    assert not send(recycled, signal.SIGKILL)
    assert alive(info) is True, "the process that has the number now was not signalled"
    assert send(info, signal.SIGTERM)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert alive(info) is False, "a zombie does no work"
    assert process.wait() == -signal.SIGTERM
    assert alive(info) is False
    assert not send(info, signal.SIGTERM)


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"boot": "x", "host": "another"},
        # This is another machine from the same image, or this machine before a reboot.
        {"boot": "x"},
        {"boot": "x", "machine": "another"},
        {"pid_namespace": "pid:[1]"},  # another container on this machine
        {"pid": None},
    ],
    ids=str,
)
def test_where_this_machine_cannot_know_it_does_not_guess(elsewhere):
    info = identity() | elsewhere
    assert alive(info) is alive({}) is None
    assert not send(info, signal.SIGKILL)


FOREIGN = {"host": "another", "boot": "another", "pid": 101, "pid_started": 103}


def test_a_foreign_attempt_lives_while_its_beat_changes(watcher, now):
    for number in range(11):
        assert watcher.alive("a", FOREIGN, {"beat": number})
        now[0] += LEASE - 1
    for number in (3, 2, 1):
        now[0] += 10 * LEASE
        assert watcher.alive("a", FOREIGN, {"beat": number}), (
            "any other value is a sign of life"
        )


@pytest.mark.parametrize("heartbeat", [{"beat": 5}, None])
def test_a_foreign_attempt_is_dead_after_a_whole_lease_without_a_change(
    watcher, now, heartbeat
):
    assert watcher.alive("a", FOREIGN, heartbeat), "the first sight proves nothing"
    now[0] += LEASE - 1
    assert watcher.alive("a", FOREIGN, heartbeat)
    assert watcher.alive("b", FOREIGN, heartbeat), "each attempt has its own lease"
    now[0] += 1
    assert not watcher.alive("a", FOREIGN, heartbeat)
    assert watcher.alive("b", FOREIGN, heartbeat)


def test_each_foreign_holder_of_a_lock_has_a_lease_of_its_own(watcher, now):
    for pid in range(101, 105):
        assert watcher.alive("lock", FOREIGN | {"pid": pid}, {"beat": 0})
        now[0] += LEASE / 3
    now[0] += LEASE
    assert not watcher.alive("lock", FOREIGN | {"pid": 104}, {"beat": 0})


def test_wall_clocks_are_never_asked(monkeypatch):
    monkeypatch.setattr(time, "time", None)
    watcher = Watcher()
    assert watcher.alive("a", FOREIGN, {"beat": 1})
    assert watcher.alive("b", identity(), None)


def test_where_boots_have_no_number_machines_of_one_image_are_not_taken_for_each_other(
    monkeypatch,
):
    real = liveness._first_line
    monkeypatch.setattr(
        liveness, "_first_line", lambda p: "" if p.name == "boot_id" else real(p)
    )
    info = identity()
    assert alive(info) is None
    assert not send(info, signal.SIGKILL)


def test_on_a_system_without_proc_nothing_is_proven(monkeypatch, tmp_path):
    monkeypatch.setattr(liveness, "_PROC", tmp_path / "none")
    assert alive(identity()) is None


WORK = """
import os, sys
from pathlib import Path
from sweeper.store import liveness
liveness.POLL_S = 0.001
folder = Path(sys.argv[1])
GO
for _ in range(20):
    with liveness.held(folder / "data"):
        os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))
        os.unlink(folder / "inside")
print("alone")
"""


def test_several_processes_are_never_inside_at_once(race, tmp_path):
    assert race(WORK, 3, tmp_path) == ["alone\n"] * 3
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    dead = {**identity(), "pid_started": -1, "beat": 0}
    publish_json(tmp_path / "data.lock-0001", dead)
    with liveness.held(tmp_path / "data"):
        assert (tmp_path / "data.lock-0002").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["data.lock-0001"]


@pytest.mark.parametrize("content", [b'{"beat": 0}', b""], ids=repr)
def test_a_holder_that_releases_the_lock_and_ends_leaves_no_second_lock(
    content, tmp_path
):
    class Ending(Watcher):
        def alive(self, name, info, heartbeat):
            Path(name).unlink()
            return False

    (tmp_path / "data.lock-0001").write_bytes(content)
    with liveness.held(tmp_path / "data", Ending()):
        assert [path.name for path in tmp_path.iterdir()] == ["data.lock-0001"]


@pytest.mark.parametrize("content", [b"", b"\0" * 99, b'{"boot": 7}'], ids=repr)
def test_a_lock_elsewhere_is_waited_for_as_long_as_it_is_told_of(
    content, tmp_path, monkeypatch
):
    """The holder is on another machine or unknown. Its lock ends with the lease."""
    now, moments = [0.0], []
    other = tmp_path / "data.lock-0001"
    other.write_bytes(content)

    def pass_time(seconds):
        moments.append(now[0])
        now[0] += 20
        if now[0] == 60:
            publish_json(other, {"boot": "elsewhere", "beat": 7})

    monkeypatch.setattr(liveness.time, "sleep", pass_time)
    with liveness.held(tmp_path / "data", Watcher(90.0, lambda: now[0])):
        pass
    assert moments == [0, 20, 40, 60, 80, 100, 120, 140]


def test_a_beat_is_written_over_in_place_and_a_torn_one_is_none(tmp_path):
    path = tmp_path / "beat.json"
    path.write_text('{"beat": 1, "an": "older, longer one of another format"}\n')
    beats = HeartbeatFile(path)
    number = path.stat().st_ino
    for value in ({"beat": 1, "loss": 2.125}, {"beat": 2}):
        beats.write(value, flush=True)
        assert read_heartbeat(path, dict) == value
    assert path.stat().st_ino == number
    path.write_bytes(path.read_bytes().replace(b"2", b"3", 1))
    assert read_heartbeat(path, dict) is None
    beats.remove()
    assert read_heartbeat(path, dict) is None
