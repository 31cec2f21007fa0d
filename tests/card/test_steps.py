"""A training step of each experiment's shapes on a simulated GPU: attention, tensors and waits."""

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
    return steps(shapes)


def test_steps_take_fused_attention_and_small_tensors_and_never_wait(shapes):
    probes = shapes.pop("probes")
    assert probes == {name: int("product" != name != "pinned copy") for name in probes}
    assert len(shapes) > 50
    for name, found in shapes.items():
        assert not found["plain_attention"], name
        assert found["largest"].get("float32", 0) <= LARGEST, name
        assert found["waits"] == [], name
