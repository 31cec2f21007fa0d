"""Schedules of a story."""

import pytest

from sweeper.run.schedule import Schedule
from sweeper.store.runs import RunStore
from tests.policies import policy
from tests.sweeper.run.stories import FakeBackend


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path)


@pytest.fixture
def tell(store):
    def story(jobs, story, slots=2, **trainer):
        for job in jobs:
            config = {"seed": job.run, "trainer": trainer}
            store.freeze({"id": job.run, "config": config, "size": {}, "names": {}})
        backend = FakeBackend(store, story, slots)
        return Schedule(store, backend, jobs, policy()), backend  # no waits, three tries

    return story
