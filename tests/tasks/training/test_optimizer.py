"""The optimizer is the paper's; the parts of a batch have the gradient of the whole."""

import math

import pytest
import torch
from torch import nn

from tasks.parse import parse, task_of
from tasks.training.loop import TrainingModule, adamw, clip
from tests.tasks.jobs import (
    SMALL,
    assert_alike,
    config,
    freeze,
    instead_of_call,
    last_word,
    opened,
    run_job,
)


def rates(schedule, steps, warmup, peak=0.1):
    changes = {
        "optimizer.schedule": schedule,
        "optimizer.learning_rate": peak,
        "optimizer.warmup_steps": warmup,
        "trainer.steps": steps,
    }
    task = task_of(parse(config(changes)))
    return [task.learning_rate(step) for step in range(1, steps + 1)]


def test_rsqrt_peaks_at_a_thousandth_after_ten_thousand_steps():
    # "learning rate 0.1, warm-up 10,000": tensor2tensor's constant * linear_warmup * rsqrt_decay.
    found = rates("rsqrt", 250_000, 10_000)
    assert found[0] == pytest.approx(1e-7)
    assert max(found) == found[9_999] == pytest.approx(1e-3)
    assert found[-1] == pytest.approx(2e-4)


def test_linear_rises_to_its_peak_and_falls_to_nothing_after_the_last_step():
    found = rates("linear", 23, 5)
    falls = [0.1 * n / 19 for n in range(18, 0, -1)]
    assert found == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1, *falls])


@pytest.mark.parametrize(("warmup", "first"), [(0, 0.1), (4, 0.025)])
def test_constant_stays_where_its_warm_up_ends(warmup, first):
    found = rates("constant", 11, warmup)
    assert found[0] == pytest.approx(first)
    assert found[warmup:] == [0.1] * (11 - warmup)


def test_decay_is_on_matrices_alone_and_every_parameter_is_trained_once():
    task = task_of(parse(config({"model.attention": {"name": "multi_head"}})))
    model = task.build()
    model.register_parameter("content_bias", nn.Parameter(torch.ones(3, 5)))
    decayed, rest = adamw(model, task.config.optimizer).param_groups
    assert (decayed["weight_decay"], rest["weight_decay"]) == (0.01, 0.0)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    of = [{names[id(p)] for p in group["params"]} for group in (decayed, rest)]
    assert of[0] | of[1] == set(names.values())
    assert not of[0] & of[1]
    assert "embedding.weight" in of[0]
    assert all("norm" not in name and not name.endswith("bias") for name in of[0])
    assert "content_bias" in of[1]


def stepped(changes, gradient):
    """A matrix before and after a step with this gradient in each of its entries."""
    section = parse(config({"optimizer.schedule": "constant", **changes})).optimizer
    assert section.learning_rate == 0.02
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    layer.weight.grad, layer.bias.grad = torch.full((2, 3), gradient), torch.zeros(2)
    adamw(layer, section).step()
    return before, layer.weight


def test_decay_is_decoupled_and_times_the_learning_rate():
    before, after = stepped({"optimizer.weight_decay": 0.25}, 0.0)
    # Without a gradient decay is all that moves a weight: Loshchilov and Hutter's equation 12.
    torch.testing.assert_close(after, before * (1 - 0.02 * 0.25))


def test_the_first_step_moves_every_weight_by_the_learning_rate():
    before, after = stepped({"optimizer.weight_decay": 0.0}, -7.0)
    torch.testing.assert_close(after, before + 0.02)


@pytest.mark.parametrize(("largest", "norm"), [(0.5, 0.5), (None, 21.0)], ids=["clipped", "free"])
def test_gradients_are_clipped_to_their_global_norm(largest, norm):
    model = nn.ParameterList([torch.zeros(9), torch.zeros(4, 3)])
    for parameter in model:
        parameter.grad = torch.full_like(parameter, math.sqrt(21))
    clip(model, largest)
    found = torch.cat([p.grad.flatten() for p in model if p.grad is not None]).norm()
    assert float(found) == pytest.approx(norm, rel=1e-4)


STILL = {"model.dropout": 0.0}  # dropout draws other masks for parts than for the whole
SEPARABLE = sorted({*SMALL} - {"representation"})  # its problems make one row


def gradients(task, model, parts):
    """What a training step leaves before its optimizer's step."""
    module = TrainingModule(task, model, parts)
    model.zero_grad()
    loss = module.training_step(task.data.batch(2), 2)
    loss.backward()
    grads = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return loss.item(), grads


@pytest.fixture(params=SEPARABLE)
def whole(request, shared):
    """A task and its model, with loss and gradients of a whole batch in single precision."""
    name = request.param
    task = opened(shared, {**SMALL[name], **(STILL if name != "nearest_neighbour" else {})})
    torch.manual_seed(0)
    model = task.build()
    return task, model, *gradients(task, model, 1)


def test_the_parts_of_a_batch_have_together_the_gradient_of_the_whole(whole):
    task, model, loss, expected = whole
    for parts in (2, 3, 1000):
        found, grads = gradients(task, model, parts)
        assert found == pytest.approx(loss, rel=1e-5)
        assert grads.keys() == expected.keys()
        for key, gradient in grads.items():
            torch.testing.assert_close(gradient, expected[key], rtol=1e-4, atol=1e-6)


def test_a_step_in_half_precision_has_nearly_the_gradient_of_single(whole):
    """On a CPU as well, where autocast hands other types on than on a GPU."""
    task, model, loss, single = whole
    with torch.autocast("cpu", torch.bfloat16):
        found, half = gradients(task, model, 1)
    assert found == pytest.approx(loss, rel=0.02)
    assert half.keys() == single.keys()
    apart = sum((half[key] - single[key]).square().sum() for key in single).sqrt()
    assert 0 < apart < 0.1 * sum(one.square().sum() for one in single.values()).sqrt()


def out_of_memory():
    error = torch.OutOfMemoryError("CUDA out of memory")
    instead_of_call(TrainingModule, "training_step", 7, error)


def test_a_run_out_of_gpu_memory_goes_on_in_parts_to_the_same_numbers(shared):
    alone = freeze(shared, STILL, "alone")
    assert run_job(alone) == 0
    run = freeze(shared, STILL, "halved")
    assert run_job(run, out_of_memory) == 1
    assert last_word(run)["cause"] == "out_of_gpu_memory"
    assert run.halve_micro_batches(run.attempts()[-1]) == 2
    assert run_job(run) == 0
    assert [attempt.info()["micro_batches"] for attempt in run.attempts()] == [1, 2]
    assert run.attempts()[1].info()["resumed_from"] == 4
    assert_alike(run, alone, rel=1e-4)


def test_a_batch_that_cannot_be_split_further_is_said(shared):
    run = freeze(shared, STILL, "rows")
    for _ in range(3):  # three rows: two parts, three, and then no more
        assert run_job(run, out_of_memory) == 1
        run.halve_micro_batches(run.attempts()[-1])
    assert last_word(run)["cause"] == "out_of_gpu_memory"
    assert run_job(run) == 1
    assert last_word(run)["cause"] == "config"
    assert "3 parts took too much memory" in last_word(run)["message"]
