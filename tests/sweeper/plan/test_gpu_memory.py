"""What a plan says of GPU memory: what runs take, which do not fit, what would make them fit."""

from __future__ import annotations

import json

import pytest

from sweeper.plan.gpu_memory import predicted
from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore

GB = 10**9


class Steps:
    """Answers like tasks.size_server: a gigabyte of weights, and activations by rows and heads."""

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
        parts = trainer["micro_batches"]
        share = trainer["devices"] * (1 if parts == "auto" else parts)
        live = weights + 10 * GB * config["model"]["heads"] // share
        of_tensors = {"resident": weights, "training": live, "evaluation": 3 * GB}
        return {**of_tensors, "process": GB + max(live, 3 * GB)}


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
        assert need == 3 + 10 * heads
    assert predicted(process, planned, None) == needs  # from what the first time has left on disk
    assert len(process.asked) == 3


def test_a_run_that_does_not_fit_is_refused_with_what_would_make_it_fit(plan, process):
    planned = plan("model.heads=1,2,16")
    with pytest.raises(UserError) as refused:
        predicted(process, planned, 30)
    told = str(refused.value)
    assert "heads=16" in told
    assert "163 GB" in told
    assert "hydra.launcher.gpu_memory_gb=30" in told
    for key in ("trainer.devices=8", "trainer.micro_batches=8"):
        assert f"{key} (23 GB)" in told
    assert predicted(process, planned, 200)


def test_where_nothing_is_enough_it_says_so(plan, process):
    with pytest.raises(UserError, match="a smaller model"):
        predicted(process, plan("model.heads=32"), 1)


def test_parts_change_no_name(plan, process):
    names = [list(plan("model.heads=4", f"trainer.micro_batches={n}").runs) for n in (1, 8)]
    assert names[0] == names[1]


def test_a_run_in_as_many_parts_as_it_needs_is_refused_only_where_none_are_enough(plan, process):
    planned = plan("model.heads=1,16", "trainer.micro_batches=auto")
    assert list(predicted(process, planned, None).values()) == [13, 163]
    assert list(predicted(process, planned, 30).values()) == [13, 23]
    with pytest.raises(UserError, match="a smaller model"):
        predicted(process, planned, 3.5)


def finish(planned, run, **result):
    record = RunStore(planned.outputs).freeze(
        {"id": run.id, "config": run.config, "size": run.size, "names": run.names}
    )
    record.publish_result(record.claim({}), {"metrics": {}, **result})


def test_what_finished_runs_took_corrects_what_others_of_their_shape_or_task_will(plan, process):
    planned = plan("model.heads=1,2,4", "seed=0,1")
    first, _, second, *_ = planned.runs.values()
    before = predicted(process, planned, None)
    finish(planned, first, max_memory_allocated=int(1.5 * 12 * GB), micro_batches=1)
    finish(planned, second, max_memory_allocated=7 * GB, micro_batches=4)  # of halved
    after = predicted(process, planned, None)
    ratios = {run: after[run] / need for run, need in before.items()}
    heads = {run: planned.runs[run].config["model"]["heads"] for run in ratios}
    assert [ratios[run] for run in ratios if heads[run] == 1] == pytest.approx([1.5] * 2)
    median = (1.5 + 1) / 2
    assert [ratios[run] for run in ratios if heads[run] > 1] == pytest.approx([median] * 4)


def test_runs_on_a_cpu_say_nothing_of_a_gpu(plan, process):
    planned = plan("model.heads=1")
    before = predicted(process, planned, None)
    finish(planned, *planned.runs.values(), micro_batches=1)
    assert predicted(process, planned, None) == before


def test_what_is_remembered_is_of_the_same_parts_and_devices(plan, process):
    for typed in ("trainer.micro_batches=1", "trainer.micro_batches=8", "trainer.devices=2"):
        predicted(process, plan("model.heads=4", typed), None)
    assert len(process.asked) == 3
    stored = json.dumps([config["trainer"] for config in process.asked])
    assert '"micro_batches": 8' in stored
