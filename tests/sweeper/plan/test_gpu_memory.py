"""What a plan says of GPU memory: what runs take, which do not fit, what would make them fit."""

from __future__ import annotations

import json

import pytest

from sweeper.plan.gpu_memory import CONTEXT_GB, FRAGMENTED, predicted
from sweeper.store.errors import UserError

GB = 10**9


class Steps:
    """Answers like tasks.server: a gigabyte of weights, and activations by rows and heads."""

    def __init__(self, process):
        self._process, self.asked = process, []

    def ask(self, questions):
        return [self._answer(question) for question in questions]

    def _answer(self, question):
        if question["op"] != "memory":
            return self._process.ask([question])[0]
        self.asked += question["configs"]
        return {"answers": [{"memory": self._memory(config)} for config in question["configs"]]}

    def _memory(self, config):
        trainer, weights = config["trainer"], 2 * GB
        share = trainer["devices"] * trainer["micro_batches"]
        live = weights + 10 * GB * config["model"]["heads"] // share
        return {"resident": weights, "training": live, "evaluation": 3 * GB}


@pytest.fixture
def process(process):
    return Steps(process)


def test_every_run_has_its_prediction_and_is_asked_about_once(plan, process):
    planned = plan("model.heads=1,2,4", "seed=0,1")
    needs = predicted(process, planned, None)
    assert needs.keys() == planned.runs.keys()
    assert len(process.asked) == 3
    for run, need in needs.items():
        heads = planned.runs[run].config["model"]["heads"]
        assert need == CONTEXT_GB + FRAGMENTED * (2 + 10 * heads)
    assert predicted(process, planned, None) == needs  # from what the first time has left on disk
    assert len(process.asked) == 3


def test_evaluation_counts_where_it_takes_more(plan, process):
    planned = plan("model.heads=1", "trainer.micro_batches=64")
    [need] = predicted(process, planned, None).values()
    assert need == CONTEXT_GB + FRAGMENTED * 3


def test_a_run_that_does_not_fit_is_refused_with_what_would_make_it_fit(plan, process):
    planned = plan("model.heads=1,2,16")
    with pytest.raises(UserError) as refused:
        predicted(process, planned, 30)
    told = str(refused.value)
    assert "heads=16" in told
    assert f"{CONTEXT_GB + FRAGMENTED * 162:.0f} GB" in told
    assert "hydra.launcher.gpu_memory_gb=30" in told
    for key in ("trainer.devices=8", "trainer.micro_batches=8"):
        assert f"{key} ({CONTEXT_GB + FRAGMENTED * 22:.0f} GB)" in told
    assert predicted(process, planned, 200)


def test_where_nothing_is_enough_it_says_so(plan, process):
    with pytest.raises(UserError, match="a smaller model"):
        predicted(process, plan("model.heads=48"), 2)


def test_parts_change_no_name(plan, process):
    names = [list(plan("model.heads=4", f"trainer.micro_batches={n}").runs) for n in (1, 8)]
    assert names[0] == names[1]


def test_what_is_remembered_is_of_the_same_parts_and_devices(plan, process):
    for typed in ("trainer.micro_batches=1", "trainer.micro_batches=8", "trainer.devices=2"):
        predicted(process, plan("model.heads=4", typed), None)
    assert len(process.asked) == 3
    stored = json.dumps([config["trainer"] for config in process.asked])
    assert '"micro_batches": 8' in stored
