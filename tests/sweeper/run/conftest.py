"""Fixtures for tests of schedules: a backend that trains nothing, and jobs with given ends."""

import os
from collections import deque

import pytest

from sweeper.run.backend import Backend, Job
from sweeper.run.schedule import Schedule
from sweeper.store.records import Record
from tests.policies import policy


class FakeBackend(Backend):
    """A backend whose jobs end one at a time, in the order of their starts, as `story` says.

    The name of each run is a letter. The letters in `started` are in the order of the starts.
    No job may start in a slot that is taken or that does not exist.
    """

    device, poll_s = "cpu", 0.0

    def __init__(self, store, story, slots):
        self.store, self.story, self.slots = store, story, slots
        self.started, self.running, self.signals = "", deque(), []

    def start(self, run, slot):
        assert slot in {*range(self.slots)} - {taken for _, _, taken in self.running}
        self.started += run.name
        self.running.append((len(self.started), run, slot))
        return len(self.started)

    def ended(self, timeout):
        if not self.running:
            return []
        what = self.story.get(self.running[0][1].name, ["done"])
        if what[0] == "ctrl-c":
            what.pop(0)
            raise KeyboardInterrupt
        handle, run, _ = self.running.popleft()
        act(self.store.run(run.name), what.pop(0) if len(what) > 1 else what[0])
        return [handle]

    def signal(self, job, number):
        self.signals.append((job, number))


def act(run, what, attempt=None):
    """End an attempt of a run, by default a new one, as `what` says."""
    if what == "dropped":
        return
    attempt = attempt or run.claim({"micro_batches": run.micro_batches()})
    if what == "done":
        result = {"metrics": {"test/loss": 1.0}, "steps": 1, "seconds": 1800.0}
        run.publish_result(attempt, result)
    attempt.finish(what, what)


def phases(schedule):
    return {run: state.phase for run, state in schedule.states.items()}


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put a program on PATH that prints a text and ends with an exit code."""

    def program(name, text, code=0):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho '{text}' | tee /dev/stderr\nexit {code}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return program


@pytest.fixture
def tell(store):
    def tell(jobs, slots=2, *, trainer=None, story=None, **options):
        """Return the schedule of jobs, or of names of jobs, and its backend."""
        jobs = [Job(one, 1.0) if isinstance(one, str) else one for one in jobs]
        for one in jobs:
            store.freeze(Record(one.run, {"seed": one.run, "trainer": trainer or {}}))
        backend = FakeBackend(store, story or {}, slots)
        # The default is three tries without waits between them.
        options.setdefault("policy", policy())
        return Schedule(store, backend, jobs, **options), backend

    return tell
