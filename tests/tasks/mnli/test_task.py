"""MNLI: from pairs to an accuracy, from scratch and from a pre-training."""

import pytest
import torch

from sweeper.store.errors import UserError
from tasks.parse import parse, task_of
from tasks.prepare import open_data, prepare
from tasks.size_server.sizes import size
from tasks.task import Evaluator
from tests.tasks.jobs import config, freeze, run_job
from tests.tasks.small import MNLI, PRETRAINING, opened

CHILD = {**MNLI, "parent": "p", "task.tokenizer": "documents-0"}


@pytest.fixture(scope="module")
def tokenizer(shared):
    """The name of the data of a pre-training, whose pieces a child reads."""
    return opened(shared, PRETRAINING).data.folder_name()


def test_an_epoch_has_each_training_pair_once(shared):
    task = opened(shared, MNLI)
    rows = open_data(task, shared)["train_rows"]
    steps = rows // 5
    seen = torch.cat([task.data.batch(step)["labels"] for step in range(1, steps + 1)])
    counts = torch.bincount(seen, minlength=3)
    assert len(seen) == 5 * steps
    assert (counts.float() / len(seen) - 1 / 3).abs().max() < 0.02


def test_a_split_is_evaluated_whole_and_words_alone_tell_little(shared):
    task = opened(shared, MNLI)
    facts = open_data(task, shared)
    labels = [batch["labels"] for batch in task.data.batches("test")]
    assert sum(map(len, labels)) == facts["test_rows"] == 127
    model = task.build()
    metrics = task.evaluate(model, "test", Evaluator(torch.device("cpu"), "32-true"))
    baselines = {"test/majority_accuracy", "test/bag_of_words_accuracy"}
    assert set(metrics) == {*task.measured, *baselines}
    assert metrics["test/majority_accuracy"] == pytest.approx(1 / 3, abs=0.01)
    assert metrics["test/bag_of_words_accuracy"] < 0.45
    validation = task.evaluate(model, "validation", Evaluator(torch.device("cpu"), "32-true"))
    assert set(validation) == {"validation/accuracy", "validation/loss"}


def test_the_model_has_the_parameters_of_its_parts():
    found, pretraining = size(config(MNLI)), size(config(PRETRAINING))
    d, vocabulary = 17, 307
    heads = d * d + d + 2 * d + vocabulary + 2 * d + 2  # masked tokens and next sentence
    assert found["params_total"] == pretraining["params_total"] - heads + 3 * d + 3


def test_a_child_is_trained_from_the_weights_of_its_parent(shared, tokenizer):
    assert run_job(freeze(shared, PRETRAINING, "p")) == 0
    child = freeze(shared, {**CHILD, "task.tokenizer": tokenizer}, "child")
    assert run_job(child) == 0
    result = child.result()
    assert result["data"]["train_rows"] + result["data"]["validation_rows"] == 882
    assert 0 <= result["metrics"]["test/accuracy"] <= 1


def _weights(changes={}):  # noqa: B006
    torch.manual_seed(7)
    return task_of(parse(config({**PRETRAINING, **changes}))).build().state_dict()


def test_a_child_takes_over_encoder_and_pooler_and_keeps_its_head():
    task = task_of(parse(config(CHILD)))
    torch.manual_seed(11)
    model = task.build()
    fresh, weights = model.classes.weight.clone(), _weights()
    task.inherit(model, weights)
    assert torch.equal(model.classes.weight, fresh)
    taken = {name: value for name, value in model.state_dict().items() if name in weights}
    assert {name.split(".")[0] for name in taken} == {"encoder", "pooler"}
    assert all(torch.equal(value, weights[name]) for name, value in taken.items())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model.heads": 5}, r"same model and vocabulary_size \(encoder"),
        ({"task.vocabulary_size": 1013}, "tokens.weight is"),
        (None, "name a run of task=pretraining"),
    ],
    ids=["heads", "vocabulary", "no_encoder"],
)
def test_the_weights_of_another_model_are_one_sentence(changes, said):
    weights = {"softmax": torch.zeros(3)} if changes is None else _weights(changes)
    task = task_of(parse(config(CHILD)))
    with pytest.raises(UserError, match=said) as caught:
        task.inherit(task.build(), weights)
    assert str(caught.value).startswith("parent=p: ")
    assert "\n" not in str(caught.value)


def test_a_parent_without_its_data_is_one_sentence(tmp_path):
    task = task_of(parse(config(CHILD)))
    with pytest.raises(UserError, match=r"tokenizer\.json is missing"):
        prepare(task, tmp_path)


def test_a_vocabulary_smaller_than_the_parents_is_told_before_training(shared, tokenizer):
    with pytest.raises(UserError, match=r"copy the parent's task.vocabulary_size"):
        opened(shared, {**MNLI, "task.tokenizer": tokenizer, "task.vocabulary_size": 97})


def test_the_pairs_of_a_child_are_the_parents_pieces(shared, tokenizer):
    child, alone = (opened(shared, {**MNLI, "task.tokenizer": of}) for of in (tokenizer, None))
    names = [shared / "data" / task.data.folder_name() for task in (child, alone)]
    assert [(name / "tokenizer.json").exists() for name in names] == [False, True]
