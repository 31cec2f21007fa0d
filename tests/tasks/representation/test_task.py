"""Tests of Theorem 1 as a task: problems depend only on the seed, and large heads fit them."""

import pytest
import torch

from tasks.size_server.sizes import size
from tests.models.theorem_1 import represent
from tests.tasks.jobs import config
from tests.tasks.small import REPRESENTATION, evaluated, made

LENGTH, SIZE, PROBLEMS = 5, 7, 11  # as in the small config
masks = pytest.mark.parametrize(
    ("mask", "smallest"), [("bidirectional", LENGTH - 1), ("causal", LENGTH // 2)]
)


def _task(changes={}):  # noqa: B006
    return made({**REPRESENTATION, **changes})


def test_problems_are_the_same_for_every_head_and_step():
    one, other = _task().data.batch(1), _task({"model.head_size": 2}).data.batch(7)
    assert all(torch.equal(one[key], other[key]) for key in one)
    torch.testing.assert_close(
        one["logs"].exp().sum(1), torch.ones(PROBLEMS, LENGTH).double()
    )


def test_a_batch_first_asked_for_by_a_validation_can_be_trained_on():
    task = _task()
    with torch.inference_mode():
        [batch] = task.data.batches("validation")
    assert not any(value.is_inference() for value in batch.values())


@masks
def test_the_construction_has_no_error_and_another_head_has(mask, smallest):
    task = _task({"task.mask": mask, "model.head_size": smallest})
    model, batch = task.model, task.data.batch(1)
    assert evaluated(task)["test/context_error"] > 1e-3
    with torch.no_grad():
        for problem, (x_DN, logs_NN) in enumerate(
            zip(batch["inputs"], batch["logs"], strict=True)
        ):
            weights = represent(x_DN, logs_NN.exp(), smallest, causal=mask == "causal")
            model.query[problem], model.key[problem] = weights
    assert evaluated(task)["test/context_error"] < 1e-9
    assert task.training_step(batch, 0).item() < 1e-15


@masks
def test_gradient_descent_finds_contexts_at_the_smallest_head_and_not_below(
    mask, smallest
):
    """The theorem constructs such heads. This test trains them."""
    errors = {}
    for head_size in (smallest - 1, smallest):
        task = _task({"task.mask": mask, "model.head_size": head_size})
        torch.manual_seed(0)
        model = task.model
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(300):
            optimizer.zero_grad()
            task.training_step(task.data.batch(1), 0).backward()
            optimizer.step()
        errors[head_size] = evaluated(task)["test/context_error"]
    assert errors[smallest] < 1e-2 * errors[smallest - 1]


def test_sizes_are_those_of_all_problems_together():
    found = size(config(REPRESENTATION))
    assert (
        found["params_total"]
        == found["params_non_embedding"]
        == PROBLEMS * 2 * 3 * SIZE
    )
    assert found["tokens"] == 19 * PROBLEMS * LENGTH
