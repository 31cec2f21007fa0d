"""Optimizers and learning-rate schedules follow their papers."""

import math

import pytest
import torch
from torch import nn

from tasks.optimizers import adamw
from tasks.training.steps import fabric_for
from tests.tasks.small import made


def rates(schedule, steps, warmup):
    changes = {
        "optimizer.schedule": schedule,
        "optimizer.learning_rate": 0.1,
        "optimizer.warmup_steps": warmup,
        "trainer.steps": steps,
    }
    return [*map(made(changes).learning_rate, range(1, steps + 1))]


def test_rsqrt_peaks_at_a_thousandth_after_ten_thousand_steps():
    # The paper states learning rate 0.1 and warm-up 10,000, for the schedule of tensor2tensor:
    # constant * linear_warmup * rsqrt_decay.
    found = rates("rsqrt", 250_000, 10_000)
    assert found[0] == pytest.approx(1e-7)
    assert max(found) == found[9_999] == pytest.approx(1e-3)
    assert found[-1] == pytest.approx(2e-4)


RISE = [0.02, 0.04, 0.06, 0.08, 0.1]
FALLING = {
    "linear": [*RISE, *(0.1 * n / 19 for n in range(18, 0, -1))],
    "cosine": [
        *RISE,
        *(0.05 + 0.05 * math.cos(math.pi * n / 19) for n in range(1, 19)),
    ],
    # In optimization.py of google-research/bert, global_step is 0 at the first step. The rate is
    # rate * global_step / warmup during the warm-up, and then
    # polynomial_decay(rate, global_step, steps, end=0, power=1).
    "bert": [0.0, *RISE[:-1], *(0.1 * (1 - done / 20) for done in range(5, 20))],
}


@pytest.mark.parametrize("schedule", FALLING)
def test_a_rate_rises_to_its_peak_and_falls_to_nothing_after_the_last_step(schedule):
    expected = FALLING[schedule]
    assert rates(schedule, len(expected), 5) == pytest.approx(expected)


@pytest.mark.parametrize(("warmup", "first"), [(0, 0.1), (4, 0.025)])
def test_constant_stays_where_its_warm_up_ends(warmup, first):
    found = rates("constant", 11, warmup)
    assert found[0] == pytest.approx(first)
    assert found[warmup:] == [0.1] * (11 - warmup)


def groups_of(changes):
    """Return an optimizer, and the names of the parameters in each of its groups.

    One parameter is a content bias, which is a matrix. Each parameter is in one group.
    """
    task = made(changes)
    task.model.register_parameter("content_bias", nn.Parameter(torch.ones(3, 5)))
    optimizer = task.configure_optimizers()
    names = {id(parameter): name for name, parameter in task.model.named_parameters()}
    groups = [[names[id(p)] for p in g["params"]] for g in optimizer.param_groups]
    assert sorted(name for group in groups for name in group) == sorted(names.values())
    return optimizer, groups


def test_decay_is_on_matrices_alone_and_every_parameter_is_trained_once():
    optimizer, (decayed, rest) = groups_of({})
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0.01, 0.0]
    assert "embedding.weight" in decayed
    assert all("norm" not in name and not name.endswith("bias") for name in decayed)
    assert "content_bias" in rest


def test_muon_takes_the_matrices_between_layers_and_adamw_the_rest():
    _, (matrices, decayed, rest) = groups_of({"optimizer.name": "muon"})
    assert all(name.startswith("blocks") for name in matrices)
    assert decayed == ["embedding.weight"]
    assert "content_bias" in rest


def test_decay_is_decoupled_and_times_the_learning_rate():
    changes = {"optimizer.schedule": "constant", "optimizer.weight_decay": 0.25}
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    layer.weight.grad = torch.zeros(2, 3)
    adamw.optimizer(layer, made(changes).config.optimizer).step()
    # Without a gradient, only weight decay changes a weight (Loshchilov and Hutter, equation 12).
    torch.testing.assert_close(layer.weight, before * (1 - 0.02 * 0.25))


@pytest.mark.parametrize("largest", [0.5, None])
def test_gradients_are_clipped_to_their_global_norm(largest):
    task = made({"optimizer.gradient_clip": largest})
    parameters = [*task.model.parameters()]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    task.fabric = fabric_for(task.config.trainer, "cpu")
    task.configure_gradient_clipping(task.configure_optimizers())
    found = torch.cat([parameter.grad.flatten() for parameter in parameters])
    expected = largest or math.sqrt(len(found))
    assert float(found.norm()) == pytest.approx(expected, rel=1e-4)
