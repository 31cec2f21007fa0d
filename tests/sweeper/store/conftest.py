"""Fixtures: a store in a temporary folder, and other processes that use the store."""

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

import sweeper
from sweeper.store.files import with_checksum
from sweeper.store.liveness import Watcher
from sweeper.store.records import Record
from sweeper.store.runs import RunStore


@pytest.fixture
def record():
    """A record of a run."""
    model, logger = {"heads": 7, "layers": 3}, {"mode": "offline"}
    config = {"seed": 0, "model": model, "logger": logger}
    return Record("lm1b-d256-h8x32-s0", config, {"params_total": 10007})


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "outputs")


@pytest.fixture
def run(store, record):
    """A frozen run without attempts."""
    return store.freeze(record)


LEASE = 89.0


@pytest.fixture
def now():
    """The time of a monotonic clock, which a test advances."""
    return [1009.0]


@pytest.fixture
def watcher(now):
    return Watcher(LEASE, lambda: now[0])


def elsewhere(attempt, **facts):
    """Overwrite attempt.json with these facts, by default those of another machine."""
    said = attempt.info() | (facts or {"host": "another", "boot": "another"})
    (attempt.path / "attempt.json").write_text(json.dumps(with_checksum(said)))


def failing(call, code):
    """Return a context manager in which a call of the operating system fails."""
    return patch.object(os, call, side_effect=OSError(code, os.strerror(code), "x"))


@pytest.fixture
def start():
    """Return a function that starts Python code in a new process, with pipes to it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(sweeper.__file__).parents[1])}
    started = []

    def begin(code, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def race(start):
    """Return a function that executes code in several processes at once, and returns their output.

    The last argument of each process is its number. All processes execute the code before the line
    "GO", wait for each other, and then execute the rest.
    """

    def run_together(code, count, *arguments):
        waiting = code.replace("GO\n", "print('ready', flush=True); input()\n")
        processes = [start(waiting, *arguments, number) for number in range(count)]
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        return [process.communicate()[0] for process in processes]

    return run_together
