"""Every job ends with a result on a GPU, as far as one can see without a GPU.

The card computes nothing (see `card.py`): losses and metrics are no subject here.
"""

import pytest

from sweeper.store.registry import TASKS, names
from tasks.parse import module_of, parse
from tasks.training.progress import SAMPLES
from tests.tasks.jobs import config

pytestmark = pytest.mark.slow

PAPER = ("lm1b", "pretraining", "mnli", "squad")  # the others measure no loss

every_task = pytest.mark.parametrize("name", names(TASKS))


@every_task
@pytest.mark.parametrize("key", ["few", "many"])
def test_a_job_ends_and_takes_deterministic_kernels_and_waits_for_no_evaluation(jobs, name, key):
    found = jobs["ended"][name][key]
    assert (found["code"], found["cause"], found["message"]) == (0, "done", "")
    assert found["peak"] > 0
    assert found["undetermined"] == []
    assert [wait for wait in found["waits"] if wait["phase"] == "evaluation"] == []


@every_task
def test_the_host_waits_for_rows_and_for_no_step(jobs, name):
    few, many = jobs["ended"][name]["few"], jobs["ended"][name]["many"]
    assert (few["rows"], many["rows"]) == (1, 3)
    assert few["samples"] == many["samples"] == (SAMPLES if name in PAPER else 0)
    for found in (few, many):
        reads = [wait for wait in found["waits"] if wait["phase"] == "sample"]
        assert len(reads) == found["samples"]
    # Beyond what both wait for before and after training: at most one read for each further row.
    assert len(many["waits"]) - len(few["waits"]) <= many["rows"] - few["rows"]


def test_weights_go_to_the_device_once(jobs):
    model = module_of(parse(config())).model
    moved = [w for w in jobs["ended"]["lm1b"]["few"]["waits"] if "copied to the card" in w["what"]]
    assert len(moved) == len(list(model.parameters()))


def test_a_killed_job_continues(jobs):
    found = jobs["resumed"]
    assert (found["killed"]["code"], found["again"]["code"]) == (-9, 0)
    assert found["steps"] == [0, 4]


def test_a_job_out_of_memory_ends_in_halves(jobs):
    whole, full, halved = (jobs["halved"][key] for key in ("whole", "full", "halved"))
    assert (whole["code"], full["code"], halved["code"]) == (0, 1, 0)
    assert full["cause"] == "out_of_gpu_memory"
    assert halved["peak"] < 0.7 * whole["peak"]
    assert len(halved["waits"]) <= len(whole["waits"])  # parts of a batch are waited for no more
