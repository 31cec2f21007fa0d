"""Every task fulfils the contract of tasks/module.py and tasks/data.py."""

import pytest
import torch

from sweeper.store.registry import TASKS, names
from tasks.batch import split
from tasks.parse import module_of
from tasks.size_server.sizes import size
from tasks.training.steps import fabric_for
from tests.refusals import refusal
from tests.tasks.jobs import config
from tests.tasks.small import SMALL, evaluated, opened, opened_data

every_task = pytest.mark.parametrize("name", SMALL)


def test_no_task_is_left_out():
    assert set(SMALL) == set(names(TASKS))


@every_task
def test_a_batch_is_a_function_of_seed_and_step(name, shared):
    task, again = opened(shared, SMALL[name]), opened(shared, SMALL[name])
    first, *_, last = [task.data.batch(step) for step in range(1, 8)]
    later = again.data.batch(7)
    assert last.keys() == later.keys() >= again.example().keys()
    assert all(torch.equal(last[key], later[key]) for key in last)
    seeded = opened(shared, {**SMALL[name], "seed": 5}).data.batch(7)
    # In the task `representation`, all steps have the same batch.
    others = [seeded] if name == "representation" else [seeded, first]
    for other in others:
        assert any(not torch.equal(last[key], other[key]) for key in last)


@every_task
def test_a_training_step_reads_no_value_of_its_device(name, shared):
    """The device "meta" has no values, so that reading one is an error."""
    data = opened_data(shared, SMALL[name])
    batch = {key: tensor.to("meta") for key, tensor in data.batch(1).items()}
    for parts in (1,) if name == "representation" else (1, 2):
        with torch.device("meta"):
            module = module_of(data.config, data)
        module.fabric = fabric_for(data.config.trainer, "cpu")
        divisors = module.divisors(batch)
        for part in split(batch, parts):
            module.training_step(part, 0, divisors).backward()
        optimizer = module.configure_optimizers()
        module.configure_gradient_clipping(optimizer)
        optimizer.step()


@every_task
def test_its_metrics_are_those_that_experiments_are_held_against(name, shared):
    task = opened(shared, SMALL[name])
    assert set(task.measured) <= evaluated(task).keys()


@pytest.mark.parametrize("name", ["mnli", "squad"])
def test_what_stands_beside_a_row_does_not_change_its_outputs(name, shared):
    task = opened(shared, SMALL[name])
    task.double().eval()
    batch = task.data.batch(1)
    length = int(batch["attention_mask"][0].sum())
    keys = ("tokens", "token_type_ids", "attention_mask")
    together, single = task(batch), task({key: batch[key][:1, :length] for key in keys})
    if name == "squad":  # the outputs are two scores for each position
        assert (together[:, 0, length:] == float("-inf")).all()
        together, single = together[:, 0, :length], single[:, 0]
    torch.testing.assert_close(together[: len(single)], single)


# The batches of mnli and squad are cut to their longest row, so `tokens_seen` is an upper bound.
@pytest.mark.parametrize("name", sorted({*SMALL} - {"mnli", "squad"}))
def test_positions_seen_are_those_of_the_batches(name, shared):
    task = opened(shared, SMALL[name])
    seen = 0
    for step in range(1, task.config.trainer.steps + 1):
        seen += task.positions(task.data.batch(step))
        assert task.data.tokens_seen(step) == seen


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("pretraining", {"task.second_phase.steps": 19}, "expected fewer than"),
        ("pretraining", {"model.tie_embeddings": False}, "expected true"),
        ("pretraining", {"model.attention.glorot": "head"}, "expected matrix"),
        ("pretraining", {"model.positions": 66}, "expected at least 67"),
        ("mnli", {"task.batch_tokens": 36}, "expected a multiple"),
        (
            "mnli",
            {"task.sequence_length": 73, "task.batch_tokens": 73},
            "expected at most model.positions=71",
        ),
        ("squad", {"task.question_length": 26}, "expected at most 25"),
        (
            "representation",
            {"model.attention": {"name": "decoupled", "value_size": None}},
            "name=decoupled: expected multi_head",
        ),
        ("representation", {"model.attention.glorot": "head"}, "expected"),
        ("representation", {"model.attention.qk_norm": True}, "expected"),
        ("representation", {"model": config()["model"]}, "expected an architecture of"),
    ],
)
def test_an_impossible_config_is_one_sentence(name, changes, sentence):
    told = refusal(size, config({**SMALL[name], **changes}))
    assert told.startswith(next(iter(changes)))
    assert sentence in told
