"""A batch that is computed in parts has the gradient of the whole batch, in every task."""

from functools import partial
from unittest.mock import Mock

import pytest
import torch

from sweeper.store.files import publish_json
from tasks.module import TaskModule
from tasks.training.steps import Steps, fabric_for
from tests.tasks.jobs import (
    assert_alike,
    at_call,
    ended,
    freeze,
    last_word,
    resumed_from,
    run_job,
)
from tests.tasks.small import SMALL, opened

STILL = {"model.dropout": 0.0}  # parts of a batch would draw other dropout masks


def out_of_memory(step):
    """Return a function that makes the job run out of GPU memory at this step."""
    fail = Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory"))
    return partial(at_call, TaskModule, "training_step", step, fail)


def gradients(task, parts):
    """Return the loss of a step, and the gradients that the optimizer would use."""
    steps = Steps(fabric_for(task.config.trainer, "cpu"), task, parts)
    steps.optimizer.step = lambda: None
    loss = steps(1, task.data.batch(2))
    named = task.model.named_parameters()
    return loss.item(), {n: p.grad.clone() for n, p in named if p.grad is not None}


# The task `representation` cannot split a batch.
@pytest.mark.parametrize("name", sorted({*SMALL} - {"representation"}))
def test_the_parts_of_a_batch_have_together_the_gradient_of_the_whole(name, shared):
    task = opened(shared, {**SMALL[name], **STILL, "optimizer.gradient_clip": None})
    loss, expected = gradients(task, 1)
    for parts in (2, 3, 1000):
        found, grads = gradients(task, parts)
        assert found == pytest.approx(loss, rel=1e-5)
        assert grads.keys() == expected.keys()
        for key, gradient in grads.items():
            torch.testing.assert_close(gradient, expected[key], rtol=1e-4, atol=1e-6)


def test_a_run_out_of_gpu_memory_goes_on_in_parts_to_the_same_numbers(shared):
    alone = ended(shared, STILL, "alone")
    run = ended(shared, STILL, "halved", sabotage=out_of_memory(7), code=1)
    assert last_word(run)["cause"] == "out_of_gpu_memory"
    assert run.halve_micro_batches(run.attempts()[-1]) == 2
    assert run_job(run) == 0
    assert [attempt.info()["micro_batches"] for attempt in run.attempts()] == [1, 2]
    assert resumed_from(run) == 4
    assert_alike(run, alone, rel=1e-4)


def test_a_batch_of_three_rows_has_three_parts_at_most_and_may_fit_elsewhere(shared):
    run = freeze(shared, {**STILL, "trainer.steps": 1}, "rows")
    publish_json(run.path / "micro_batches.json", {"micro_batches": 8})
    assert run_job(run, out_of_memory(1)) == 1
    assert last_word(run)["cause"] == "out_of_gpu_memory"
    assert run.halve_micro_batches(run.attempts()[-1]) == 0
    assert run_job(run) == 0
    assert run.result().micro_batches == 3


def test_there_are_as_many_parts_as_the_larger_phase_has_rows(shared):
    rows = {"task.second_phase.batch_tokens": 8 * 67, "trainer.micro_batches": 9}
    run = ended(shared, {**SMALL["pretraining"], **rows}, "two-phases")
    assert run.result().micro_batches == 8
