"""Theorem 1 and nearest neighbours as tasks: errors fall where they should."""

import pytest
import torch
import torch.nn.functional as F

from tasks.parse import parse, task_of
from tasks.size_server.sizes import size
from tasks.task import Evaluator
from tasks.training.loop import summed
from tests.models.theorem_1 import represent
from tests.tasks.jobs import NEAREST_NEIGHBOUR, REPRESENTATION, config

LENGTH, SIZE, PROBLEMS = 5, 7, 11  # of the small config
CPU = Evaluator(torch.device("cpu"), "64-true")


def _task(changes={}):  # noqa: B006
    return task_of(parse(config({**REPRESENTATION, **changes})))


def test_problems_are_a_function_of_the_seed_and_not_of_the_head():
    one, other = _task().data.batch(1), _task({"model.head_size": 2}).data.batch(7)
    assert all(torch.equal(one[key], other[key]) for key in one)
    seeded = _task({"seed": 4}).data.batch(1)
    assert not torch.equal(one["inputs"], seeded["inputs"])
    assert not torch.equal(one["logs"], seeded["logs"])
    assert one["logs"].shape == (PROBLEMS, LENGTH, LENGTH)
    torch.testing.assert_close(one["logs"].exp().sum(1), torch.ones(PROBLEMS, LENGTH).double())


@pytest.mark.parametrize(
    ("mask", "smallest"), [("bidirectional", LENGTH - 1), ("causal", LENGTH // 2)]
)
def test_the_construction_has_no_error_and_another_head_has(mask, smallest):
    task = _task({"task.mask": mask, "model.head_size": smallest})
    model, batch = task.build().double(), task.data.batch(1)
    assert task.evaluate(model, "test", CPU)["test/context_error"] > 1e-3
    with torch.no_grad():
        for problem, (x_DN, logs_NN) in enumerate(zip(batch["inputs"], batch["logs"], strict=True)):
            weights = represent(x_DN, logs_NN.exp(), smallest, causal=mask == "causal")
            model.query[problem], model.key[problem] = weights
    assert task.evaluate(model, "test", CPU)["test/context_error"] < 1e-9
    assert summed(task.loss(model, batch)).item() < 1e-15


def test_gradient_descent_finds_contexts_at_n_minus_1_and_not_below():
    errors = {}
    for head_size in (LENGTH - 2, LENGTH - 1):
        task = _task({"model.head_size": head_size})
        torch.manual_seed(0)
        model = task.build().double()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(300):
            optimizer.zero_grad()
            summed(task.loss(model, task.data.batch(1))).backward()
            optimizer.step()
        found = task.evaluate(model, "test", CPU)
        errors[head_size] = found["test/context_error"]
    assert errors[LENGTH - 1] < 1e-2 * errors[LENGTH - 2]


def test_sizes_are_those_of_all_problems_together():
    found = size(config(REPRESENTATION))
    assert found["params_total"] == found["params_non_embedding"] == PROBLEMS * 2 * 3 * SIZE
    assert found["tokens"] == 19 * PROBLEMS * LENGTH


D, POINTS, ROWS, SHARPNESS = 5, 7, 3, 11.0  # of the small config
SINGLE = Evaluator(torch.device("cpu"), "32-true")


def _neighbour_config(heads=1, head_size=D):
    return config({**NEAREST_NEIGHBOUR, "model.heads": heads, "model.head_size": head_size})


def _neighbour_task(**changes):
    return task_of(parse(_neighbour_config(**changes)))


def test_rows_are_fresh_each_step_and_a_function_of_seed_and_step():
    one, other = _neighbour_task(), _neighbour_task(heads=3)
    assert torch.equal(one.data.batch(2)["points"], other.data.batch(2)["points"])
    assert not torch.equal(one.data.batch(1)["points"], one.data.batch(2)["points"])
    assert one.data.batch(1)["points"].shape == (ROWS, POINTS, D)
    torch.testing.assert_close(one.data.batch(1)["points"].norm(dim=-1), torch.ones(ROWS, POINTS))
    first, *rest = (batch["points"] for batch in one.data.batches("test"))
    assert not any(torch.equal(first, points) for points in rest)


def test_one_head_as_large_as_the_points_is_exact():
    task = _neighbour_task()
    model = task.build()
    with torch.no_grad():
        # x^T (W_k^T W_q) y / sqrt(D) is sharpness * x^T y, and what is moved is the point itself.
        eye = torch.eye(D)
        model.attention.qkv.weight.copy_(torch.cat((SHARPNESS * D**0.5 * eye, eye, eye)))
        model.attention.output.weight.copy_(eye)
    found = task.evaluate(model, "test", SINGLE)
    assert found["test/relative_error"] < 1e-9
    x_TD = task.data.batch(1)["points"][0]
    nearest = (x_TD @ x_TD.T).fill_diagonal_(-1).argmax(1)
    similar = F.cosine_similarity(task.outputs(model, {"points": x_TD[None]})[0], x_TD[nearest])
    assert similar.median() > 0.8


def test_a_layer_that_says_nothing_is_wrong_by_all_of_it():
    task = _neighbour_task()
    model = task.build()
    torch.nn.init.zeros_(model.attention.output.weight)
    found = task.evaluate(model, "test", SINGLE)
    assert found["test/relative_error"] == pytest.approx(1)
