"""Theorem 1 as a task: problems are functions of the seed, and the error falls where it should."""

import pytest
import torch

from sweeper.store.errors import UserError
from tasks.parse import parse
from tasks.prepare import task_of
from tasks.size_server.sizes import size
from tasks.task import Evaluator
from tasks.training.module import summed
from tests.models.theorem_1 import represent
from tests.tasks.jobs import config

LENGTH, SIZE, PROBLEMS = 5, 7, 11


def _config(**changes):
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    section = {"sequence_length": LENGTH, "problems_per_run": PROBLEMS, "logit_scale": 1.0}
    layer = {"name": "layer", "embedding_size": SIZE, "heads": 1, "head_size": 3}
    return config(
        {
            "task": {"name": "representation", "mask": "bidirectional", **section},
            "model": {**layer, "attention": {"name": "multi_head"}},
            "trainer.precision": "64-true",
            **dotted,
        }
    )


def _task(**changes):
    return task_of(parse(_config(**changes)))


def test_problems_are_a_function_of_the_seed_and_not_of_the_head():
    one, other = _task().data.batch(1), _task(model__head_size=2).data.batch(7)
    assert all(torch.equal(one[key], other[key]) for key in one)
    seeded = _task(seed=4).data.batch(1)
    assert not torch.equal(one["inputs"], seeded["inputs"])
    assert not torch.equal(one["logs"], seeded["logs"])
    assert one["logs"].shape == (PROBLEMS, LENGTH, LENGTH)
    torch.testing.assert_close(one["logs"].exp().sum(1), torch.ones(PROBLEMS, LENGTH).double())


@pytest.mark.parametrize(
    ("mask", "smallest"), [("bidirectional", LENGTH - 1), ("causal", LENGTH // 2)]
)
def test_the_construction_has_no_error_and_another_head_has(mask, smallest):
    task = _task(task__mask=mask, model__head_size=smallest)
    model, batch = task.build().double(), task.data.batch(1)
    evaluator = Evaluator(torch.device("cpu"), "64-true")
    assert task.evaluate(model, "test", evaluator)["test/context_error"] > 1e-3
    with torch.no_grad():
        for problem, (x_DN, logs_NN) in enumerate(zip(batch["inputs"], batch["logs"], strict=True)):
            weights = represent(x_DN, logs_NN.exp(), smallest, causal=mask == "causal")
            model.query[problem], model.key[problem] = weights
    assert task.evaluate(model, "test", evaluator)["test/context_error"] < 1e-9
    assert summed(task.loss(model, batch)).item() < 1e-15


def test_gradient_descent_finds_contexts_at_n_minus_1_and_not_below():
    errors = {}
    for head_size in (LENGTH - 2, LENGTH - 1):
        task = _task(model__head_size=head_size)
        torch.manual_seed(0)
        model = task.build().double()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(300):
            optimizer.zero_grad()
            summed(task.loss(model, task.data.batch(1))).backward()
            optimizer.step()
        found = task.evaluate(model, "test", Evaluator(torch.device("cpu"), "64-true"))
        assert set(found) == set(task.measured)
        errors[head_size] = found["test/context_error"]
    assert errors[LENGTH - 1] < 1e-2 * errors[LENGTH - 2]


def test_sizes_are_those_of_all_problems_together():
    found = size(_config())
    assert found["params_total"] == found["params_non_embedding"] == PROBLEMS * 2 * 3 * SIZE
    assert found["tokens"] == 19 * PROBLEMS * LENGTH


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model__heads": 2}, "model.heads=2: expected 1"),
        ({"model__embedding_size": 3}, "model.embedding_size=3: expected at least task"),
        (
            {"model__attention": {"name": "collaborative", "shared_size": 3}},
            "model.attention.name=collaborative: expected multi_head",
        ),
    ],
)
def test_what_the_theorem_does_not_speak_of_is_refused(changes, words):
    with pytest.raises(UserError, match=words.replace(".", r"\.")):
        _task(**changes).build()


def test_single_heads_are_not_trained_by_a_task_of_transformers():
    with pytest.raises(UserError, match=r"model\.name=decoder: expected one of layer"):
        parse(_config(model=config()["model"]))
