"""Nearest neighbours as a task: one head as large as the points finds them, and rows are fresh."""

import pytest
import torch
import torch.nn.functional as F

from tasks.task import Evaluator
from tests.tasks.small import CPU, NEAREST_NEIGHBOUR, made

D, POINTS, ROWS, SHARPNESS = 5, 7, 3, 11.0  # of the small config


def _task(heads=1, precision="32-true"):
    changes = {"model.heads": heads, "model.head_size": D, "trainer.precision": precision}
    return made({**NEAREST_NEIGHBOUR, **changes})


def test_rows_are_fresh_each_step_and_a_function_of_seed_and_step():
    one, other = _task(), _task(heads=3)
    assert torch.equal(one.data.batch(2)["points"], other.data.batch(2)["points"])
    assert not torch.equal(one.data.batch(1)["points"], one.data.batch(2)["points"])
    assert one.data.batch(1)["points"].shape == (ROWS, POINTS, D)
    torch.testing.assert_close(one.data.batch(1)["points"].norm(dim=-1), torch.ones(ROWS, POINTS))
    first, *rest = (batch["points"] for batch in one.data.batches("test"))
    assert not any(torch.equal(first, points) for points in rest)


@pytest.mark.parametrize(("precision", "largest"), [("32-true", 1e-9), ("64-true", 1e-15)])
def test_one_head_as_large_as_the_points_is_exact(precision, largest):
    task = _task(precision=precision)
    model = task.build().to(task.data.batch(1)["points"].dtype)
    with torch.no_grad():
        # x^T (W_k^T W_q) y / sqrt(D) is sharpness * x^T y, and what is moved is the point itself.
        eye = torch.eye(D)
        model.attention.qkv.weight.copy_(torch.cat((SHARPNESS * D**0.5 * eye, eye, eye)))
        model.attention.output.weight.copy_(eye)
    found = task.evaluate(model, "test", Evaluator(CPU.device, precision))
    assert found["test/relative_error"] < largest
    x_TD = task.data.batch(1)["points"][0]
    nearest = (x_TD @ x_TD.T).fill_diagonal_(-1).argmax(1)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = task.score(model, {"points": x_TD[None]})
    assert torch.equal(rounded["whole"], task.score(model, {"points": x_TD[None]})["whole"])
    similar = F.cosine_similarity(task.outputs(model, {"points": x_TD[None]})[0], x_TD[nearest])
    assert similar.median() > 0.8


def test_a_layer_that_says_nothing_is_wrong_by_all_of_it():
    task = _task()
    model = task.build()
    torch.nn.init.zeros_(model.attention.output.weight)
    found = task.evaluate(model, "test", CPU)
    assert found["test/relative_error"] == pytest.approx(1)
