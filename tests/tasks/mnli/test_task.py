"""MNLI: from pairs to an accuracy, from scratch and from a pre-training."""

import pytest
import torch

from models.bert_heads import Classifier, PretrainingModel
from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore
from tasks.mnli import task
from tasks.parse import parse
from tasks.prepare import prepare, task_of
from tasks.size_server.sizes import size
from tasks.task import Evaluator
from tests.tasks.fine_tuning_configs import ENCODER, MNLI, PRETRAINING, fine_tuning
from tests.tasks.jobs import at_call, run_job, science, terminate_self


@pytest.fixture(scope="module")
def outputs(_ready_to_fork, tmp_path_factory):
    """An outputs folder with the prepared data of the small pre-training and of its child."""
    outputs = tmp_path_factory.mktemp("mnli")
    for config in (fine_tuning(MNLI), fine_tuning(PRETRAINING)):
        prepare(task_of(parse(config)), outputs)
    return outputs


def _task(outputs, **changes):
    task = task_of(parse(fine_tuning(MNLI, **changes)))
    task.data.open(prepare(task, outputs))
    return task


def _freeze(outputs, name, config):
    names = {"experiment": "none", "arm": "none", "label": name}
    return RunStore(outputs).freeze({"id": name, "config": config, "size": {}, "names": names})


def test_a_batch_is_a_function_of_seed_and_step(outputs):
    one, other = _task(outputs), _task(outputs)
    later = one.data.batch(7)
    for step in range(1, 8):
        batch = other.data.batch(step)
    assert all(torch.equal(later[key], batch[key]) for key in later)
    assert not torch.equal(one.data.batch(1)["labels"], one.data.batch(2)["labels"])
    seeded = _task(outputs, seed=5).data.batch(7)
    assert not torch.equal(seeded["labels"], later["labels"])


def test_an_epoch_has_each_training_pair_once(outputs):
    task = _task(outputs)
    rows = task.data.open(prepare(task, outputs))["train_rows"]
    steps = rows // 5
    seen = torch.cat([task.data.batch(step)["labels"] for step in range(1, steps + 1)])
    counts = torch.bincount(seen, minlength=3)
    assert len(seen) == 5 * steps
    assert (counts.float() / len(seen) - 1 / 3).abs().max() < 0.02


def test_a_split_is_evaluated_whole_and_words_alone_tell_little(outputs):
    task = _task(outputs)
    facts = task.data.open(prepare(task, outputs))
    labels = [batch["labels"] for batch in task.data.batches("test")]
    assert sum(map(len, labels)) == facts["test_rows"] == 127
    model = task.build()
    metrics = task.evaluate(model, "test", Evaluator(torch.device("cpu"), "32-true"))
    assert set(metrics) == {
        "test/accuracy",
        "test/loss",
        "test/majority_accuracy",
        "test/bag_of_words_accuracy",
    }
    assert metrics["test/majority_accuracy"] == pytest.approx(1 / 3, abs=0.01)
    assert metrics["test/bag_of_words_accuracy"] < 0.45
    validation = task.evaluate(model, "validation", Evaluator(torch.device("cpu"), "32-true"))
    assert set(validation) == {"validation/accuracy", "validation/loss"}


def test_what_stands_beside_a_row_does_not_change_its_outputs(outputs):
    task = _task(outputs)
    model = task.build().double().eval()
    batch = task.data.batch(1)
    alone = {key: value[:1] for key, value in batch.items()}
    length = int(alone["attention_mask"].sum())
    for key in ("tokens", "token_type_ids", "attention_mask"):
        alone[key] = alone[key][:, :length]
    together_BC, alone_BC = task.outputs(model, batch), task.outputs(model, alone)
    torch.testing.assert_close(together_BC[:1], alone_BC)


def test_the_model_has_the_parameters_of_its_parts():
    found, pretraining = size(fine_tuning(MNLI)), size(fine_tuning(PRETRAINING))
    d, vocabulary = ENCODER["embedding_size"], 1009
    assert isinstance(d, int)
    heads = d * d + d + 2 * d + vocabulary + 2 * d + 2  # masked tokens and next sentence
    assert found["params_total"] == pretraining["params_total"] - heads + 3 * d + 3


def test_a_job_continues_to_the_bit_and_its_child_starts_from_its_weights(outputs):
    parent = _freeze(outputs, "parent", fine_tuning(PRETRAINING))
    assert run_job(parent) == 0
    name = task_of(parse(fine_tuning(PRETRAINING))).data.folder_name()
    config = fine_tuning(MNLI, parent="parent", task__tokenizer=name, task__batch_tokens=3 * 37)
    whole, stopped = (_freeze(outputs, name, config) for name in ("whole", "stopped"))
    assert run_job(whole) == 0

    def sabotage():
        at_call(task.NaturalLanguageInference, "loss", 5, terminate_self)

    assert run_job(stopped, sabotage) == 75
    assert run_job(stopped) == 0
    assert science(stopped) == science(whole)
    result = whole.result()
    assert result["data"]["train_rows"] + result["data"]["validation_rows"] == 882
    assert 0 <= result["metrics"]["test/accuracy"] <= 1
    assert set(task.NaturalLanguageInference.measured) <= result["metrics"].keys()


def _weights(**changes):
    torch.manual_seed(7)
    model = task_of(parse(fine_tuning(PRETRAINING, **changes))).build()
    assert isinstance(model, PretrainingModel)
    return model.state_dict()


def test_a_child_takes_over_encoder_and_pooler_and_keeps_its_head():
    task = task_of(parse(fine_tuning(MNLI, parent="p", task__tokenizer="t")))
    torch.manual_seed(11)
    model = task.build()
    assert isinstance(model, Classifier)
    fresh, weights = model.classes.weight.clone(), _weights()
    task.inherit(model, weights)
    assert torch.equal(model.classes.weight, fresh)
    taken = {name: value for name, value in model.state_dict().items() if name in weights}
    assert {name.split(".")[0] for name in taken} == {"encoder", "pooler"}
    assert all(torch.equal(value, weights[name]) for name, value in taken.items())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"model__heads": 5}, r"same model and vocabulary_size \(encoder", id="heads"),
        pytest.param({"task__vocabulary_size": 1013}, "tokens.weight is", id="vocabulary"),
        pytest.param(None, "name a run of task=pretraining", id="no_encoder"),
    ],
)
def test_the_weights_of_another_model_are_one_sentence(changes, said):
    weights = {"softmax": torch.zeros(3)} if changes is None else _weights(**changes)
    task = task_of(parse(fine_tuning(MNLI, parent="p", task__tokenizer="t")))
    with pytest.raises(UserError, match=said) as caught:
        task.inherit(task.build(), weights)
    assert str(caught.value).startswith("parent=p: ")
    assert "\n" not in str(caught.value)


def test_a_parent_without_its_data_is_one_sentence(tmp_path):
    task = task_of(parse(fine_tuning(MNLI, parent="p", task__tokenizer="documents-0")))
    with pytest.raises(UserError, match=r"tokenizer\.json is missing"):
        prepare(task, tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param(
            {"task__batch_tokens": 36}, "task.batch_tokens=36: expected a multiple", id="rows"
        ),
        pytest.param(
            {"model__positions": 31}, "task.sequence_length=37: expected at most", id="positions"
        ),
        pytest.param(
            {"task__tokenizer": 5}, "the name of the parent's prepared data", id="tokenizer"
        ),
        pytest.param({"model__name": "decoder"}, "model.name=decoder", id="decoder"),
    ],
)
def test_an_impossible_config_is_one_sentence(changes, said):
    with pytest.raises(UserError, match=said):
        size(fine_tuning(MNLI, **changes))


def test_a_vocabulary_smaller_than_the_parents_is_told_before_training(outputs):
    name = task_of(parse(fine_tuning(PRETRAINING))).data.folder_name()
    with pytest.raises(UserError, match=r"copy the parent's task.vocabulary_size"):
        _task(outputs, task__tokenizer=name, task__vocabulary_size=97)


def test_the_pairs_of_a_child_are_the_parents_pieces(outputs):
    name = task_of(parse(fine_tuning(PRETRAINING))).data.folder_name()
    child, alone = (_task(outputs, task__tokenizer=tokenizer) for tokenizer in (name, None))
    assert child.data.folder_name() != alone.data.folder_name()
    assert not (outputs / "data" / child.data.folder_name() / "tokenizer.json").exists()
    assert (outputs / "data" / alone.data.folder_name() / "tokenizer.json").exists()
