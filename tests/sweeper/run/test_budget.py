"""A budget in device hours: nothing is started once it is spent, and more of it goes on."""

from __future__ import annotations

import pytest

from sweeper.run.backend import Job, Phase
from sweeper.run.failures import Budget, hours
from sweeper.run.schedule import Schedule
from sweeper.store.runs import RunStore
from tests.policies import policy
from tests.sweeper.run import stories

TRAINER = {"accelerator": "gpu", "devices": 2, "num_nodes": 1, "threads": 1}
RUNS = [f"lm1b-s{seed}" for seed in range(5)]


@pytest.fixture
def swept(tmp_path, monkeypatch):
    """Sweeps five runs, one after the other, each half an hour on two devices; what was started."""

    def act(run, what):
        attempt = run.claim({})
        run.publish_result(attempt, {"metrics": {}, "seconds": 1800.0})

    monkeypatch.setattr(stories, "act", act)
    store = RunStore(tmp_path)
    for run in RUNS:
        config = {"seed": run, "trainer": TRAINER}
        store.freeze({"id": run, "config": config, "size": {}, "names": {}})

    def sweep(limit, chosen=0.0):
        backend = stories.FakeBackend(store, {}, slots=1)
        budget = Budget(limit, chosen + hours(store, RUNS))
        jobs = [Job(run, 1.0) for run in RUNS if store.run(run).result() is None]
        schedule = Schedule(store, backend, jobs, policy(), budget=budget)
        done = schedule.execute()
        waiting = sum(state.phase is Phase.WAITING for state in schedule.states.values())
        return done, len(backend.started), waiting, schedule.breaker.tripped

    return sweep


def test_nothing_more_is_started_once_it_is_spent_and_typed_again_with_more_it_goes_on(swept):
    done, started, waiting, why = swept(2.0)
    assert (done, started, waiting) == (False, 2, 3)
    assert why.startswith("hydra.sweeper.budget_device_hours=2 is spent (2 in all)")
    assert swept(2.0)[:3] == (False, 0, 3)
    assert swept(3.5)[:3] == (False, 2, 1), "what is under way when it is spent is let end"
    assert swept(None) == (True, 1, 0, "")


def test_what_tuning_took_counts(swept):
    assert swept(2.0, chosen=1.5)[:3] == (False, 1, 4)
