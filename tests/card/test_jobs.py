"""Every job and every step works on a GPU, as far as one can see without a GPU."""

import json

import pytest
from omegaconf import OmegaConf

from sweeper.plan.compose import CONF
from sweeper.store.registry import TASKS, names
from tasks.parse import parse, task_of
from tasks.training.progress import SAMPLES
from tests.tasks.jobs import config

pytestmark = pytest.mark.slow
PAPER = ("lm1b", "pretraining", "mnli", "squad")  # the others measure no loss
every_task = pytest.mark.parametrize("name", names(TASKS))
both = pytest.mark.parametrize("key", ["few", "many"])


@every_task
@both
def test_a_job_ends_with_a_result(jobs, name, key):
    found = jobs["ended"][name][key]
    assert (found["code"], found["cause"], found["message"]) == (0, "done", "")
    assert found["peak"] > 0


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


@every_task
@both
def test_the_host_waits_for_no_batch_of_an_evaluation(jobs, name, key):
    found = jobs["ended"][name][key]["waits"]
    assert [wait for wait in found if wait["phase"] == "evaluation"] == []


def test_weights_go_to_the_device_once(jobs):
    model = task_of(parse(config())).build()
    moved = [w for w in jobs["ended"]["lm1b"]["few"]["waits"] if "copied to the card" in w["what"]]
    assert len(moved) == len(list(model.parameters()))


@every_task
@both
def test_the_same_record_takes_deterministic_kernels(jobs, name, key):
    assert jobs["ended"][name][key]["undetermined"] == []


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


LARGEST = 256e6  # bytes of a tensor in single precision, where training is in bfloat16
EXPERIMENTS = sorted(
    path.stem
    for path in (CONF / "experiment").glob("*.yaml")
    if "gpu" in OmegaConf.load(path).get("experiment", {}).get("scales", {"gpu"})
)
LM = ("task=lm1b", "model.embedding_size=256")
MEASURED = {  # operators a step launches, GB at the peak; of 6 layers, in bfloat16
    "lm1b d256 h8": ((*LM, "model.heads=8"), 448, 4.10),
    "lm1b d256 h64": ((*LM, "model.heads=64"), 472, 4.55),  # heads of 4, filled up to 8
    "lm1b d256 h70": ((*LM, "model.heads=70", "model.head_size=32"), 448, 7.44),
    "lm1b d512 h8": (("task=lm1b", "model.embedding_size=512", "model.heads=8"), 448, 5.51),
    "collaborative": ((*LM, "model.heads=64", "model/attention=collaborative"), 610, 11.27),
    "pretraining d512": (("task=pretraining",), 492, 4.84),
    "mnli d512": (("task=mnli",), 411, 0.89),
    "squad d512": (("task=squad",), 414, 1.57),
}


@pytest.fixture(scope="module")
def configs(planned):
    return {name: planned(*point)[0] for name, (point, _, _) in MEASURED.items()}


@pytest.fixture(scope="module")
def measured(configs, steps):
    return steps(configs, 2)


@pytest.mark.parametrize("name", MEASURED)
def test_a_step_launches_and_takes_what_it_did(measured, name):
    _, launches, gigabytes = MEASURED[name]
    found = measured[name]
    assert found["launches"] == pytest.approx(launches, rel=0.05)
    assert found["peak"] / 1e9 == pytest.approx(gigabytes, rel=0.05)
    assert found["waits"] == []


@pytest.fixture(scope="module")
def shapes(planned, steps):
    """A step of every shape of every experiment, of one layer where all are alike."""
    configs = {}
    for tree in planned(f"experiment={','.join(EXPERIMENTS)}"):
        if tree["trainer"]["precision"] == "64-true":  # has the plain attention alone
            continue
        if not isinstance(tree["model"]["head_size"], list) and "layers" in tree["model"]:
            tree["model"]["layers"] = 1
        shape = {key: tree[key] for key in ("task", "model")}
        configs[json.dumps(shape, sort_keys=True)] = tree
    return steps(configs, 1)


def test_no_shape_takes_plain_attention(shapes):
    assert len(shapes) > 100
    assert [name for name, found in shapes.items() if found["plain_attention"]] == []


def test_no_shape_has_a_large_tensor_in_single_precision(shapes):
    sizes = {name: found["largest"].get("float32", 0) for name, found in shapes.items()}
    assert [name for name, size in sizes.items() if size > LARGEST] == []


def test_no_shape_makes_the_host_wait_in_a_step(shapes):
    assert [found["waits"] for found in shapes.values() if found["waits"]] == []
