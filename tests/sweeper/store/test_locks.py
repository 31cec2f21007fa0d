"""Locks made of hard links: one at a time, whoever dies; no flock, which mounts may fake."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from sweeper.store import liveness as locks
from sweeper.store.files import publish_json
from sweeper.store.liveness import HeartbeatFile, Watcher, identity, read_heartbeat

ROOT = Path(__file__).resolve().parents[3]
WORK = """
import os, sys
from pathlib import Path
from sweeper.store import liveness as locks
locks.POLL_S = 0.001
folder = Path(sys.argv[1])
GO
for _ in range(20):
    with locks.held(folder / "data"):
        os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))
        os.unlink(folder / "inside")
print("alone")
"""


def test_several_processes_are_never_inside_at_once(race, tmp_path):
    assert race(WORK, 4, tmp_path) == ["alone\n"] * 4
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    dead = {**identity(), "pid_started": -1, "beat": 0}
    publish_json(tmp_path / "data.lock-0001", dead)
    with locks.held(tmp_path / "data"):
        assert (tmp_path / "data.lock-0002").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["data.lock-0001"]


@pytest.mark.parametrize("content", [b"", b"\0" * 99, b'{"boot": 7}'], ids=repr)
def test_a_lock_elsewhere_is_waited_for_as_long_as_it_is_told_of(content, tmp_path, monkeypatch):
    """That of another machine, or one that says nothing: nobody waits for it without end."""
    now, moments = [0.0], []
    other = tmp_path / "data.lock-0001"
    other.write_bytes(content)
    beats = HeartbeatFile(tmp_path / "other")
    beats.close()

    def pass_time(seconds):
        moments.append(now[0])
        now[0] += 20
        if now[0] == 60:
            publish_json(other, {"boot": "elsewhere", "beat": 7})

    monkeypatch.setattr(locks.time, "sleep", pass_time)
    with locks.held(tmp_path / "data", Watcher(90.0, lambda: now[0])):
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
    beats.close(remove=True)
    assert read_heartbeat(path, dict) is None


def test_nothing_rests_on_locks_that_network_file_systems_break():
    asked = re.compile(r"^\s*(import|from) (fcntl|filelock)|\bflock\(", re.MULTILINE)
    code = [path for room in ("sweeper", "tasks") for path in (ROOT / room).rglob("*.py")]
    assert len(code) > 100
    assert [str(path) for path in code if asked.search(path.read_text())] == []
    assert os.name == "posix"
