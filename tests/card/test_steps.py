"""What a training step of each experiment's shapes launches and takes on a GPU.

The numbers are those of the card: operators that launch something, and bytes of live tensors.
"""

import json

import pytest
from omegaconf import OmegaConf

from sweeper.plan.compose import CONF

pytestmark = pytest.mark.slow

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
    "collaborative": (
        (*LM, "model.heads=64", "model/attention=collaborative"),
        610,
        11.27,
    ),
    "pretraining d512": (("task=pretraining",), 492, 4.84),
    "squad d512": (("task=squad",), 414, 1.57),
}


@pytest.fixture(scope="module")
def measured(planned, steps):
    return steps(
        {name: planned(*point)[0] for name, (point, _, _) in MEASURED.items()}, 2
    )


@pytest.mark.parametrize("name", MEASURED)
def test_a_step_launches_and_takes_what_it_did(measured, name):
    _, launches, gigabytes = MEASURED[name]
    found = measured[name]
    assert found["launches"] == pytest.approx(launches, rel=0.05)
    assert found["peak"] / 1e9 == pytest.approx(gigabytes, rel=0.05)
    assert found["waits"] == []


@pytest.fixture(scope="module")
def shapes(planned, steps):
    """A step of one layer, unless layers differ, of the largest model of each kind, and of each
    width of heads of each kind of attention.

    The largest in each of three sizes: tensors grow with them. The attention that is taken depends
    on the mask, which is the architecture's, and on widths.
    """
    sizes, chosen = ("embedding_size", "heads", "feedforward_size"), {}
    for config in planned(f"experiment={','.join(EXPERIMENTS)}"):
        model = config["model"]
        if config["trainer"]["precision"] == "64-true":  # has the plain attention alone
            continue
        if not isinstance(model["head_size"], list) and "layers" in model:
            model["layers"] = 1
        widths = [model["name"], model["head_size"], model["attention"]]
        chosen.setdefault(json.dumps(widths, sort_keys=True), config)
        rest = {
            key: value
            for key, value in model.items()
            if key not in (*sizes, "head_size")
        }
        rest["attention"] = model["attention"]["name"]
        for size in set(sizes) & set(model):
            kind = json.dumps([size, config["task"], rest], sort_keys=True)
            if kind not in chosen or model[size] > chosen[kind]["model"][size]:
                chosen[kind] = config
    shapes = {json.dumps([one["task"], one["model"]]): one for one in chosen.values()}
    return steps(shapes, 1)


def test_no_shape_takes_plain_attention(shapes):
    assert len(shapes) > 50
    assert [name for name, found in shapes.items() if found["plain_attention"]] == []


def test_no_shape_has_a_large_tensor_in_single_precision(shapes):
    sizes = {name: found["largest"].get("float32", 0) for name, found in shapes.items()}
    assert [name for name, size in sizes.items() if size > LARGEST] == []


def test_no_shape_makes_the_host_wait_in_a_step(shapes):
    assert [found["waits"] for found in shapes.values() if found["waits"]] == []


def test_the_host_waits_for_values_and_for_copies_of_memory_that_is_not_pinned(probes):
    waits = {"item", "copy to the host", "copy to the card", "copy without a pin"}
    assert probes == {name: int(name in waits) for name in probes}
