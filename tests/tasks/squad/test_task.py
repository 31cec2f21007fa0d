"""SQuAD: from questions to the official scores, answers cut from the text as it stands there."""

import json

import pytest
import torch
from torch import nn

from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore
from tasks.parse import parse
from tasks.prepare import prepare, task_of
from tasks.size_server.sizes import size
from tasks.squad.__main__ import score_files
from tasks.squad.task import QuestionAnswering
from tasks.task import Evaluator
from tasks.training.module import summed
from tests.tasks.fine_tuning_configs import SQUAD, fine_tuning
from tests.tasks.jobs import at_call, run_job, science, terminate_self
from tests.tasks.squad import official_evaluator

CPU = Evaluator(torch.device("cpu"), "32-true")


@pytest.fixture(scope="module")
def outputs(_ready_to_fork, tmp_path_factory):
    """An outputs folder with the prepared data of the small config."""
    outputs = tmp_path_factory.mktemp("squad")
    prepare(task_of(parse(fine_tuning(SQUAD))), outputs)
    return outputs


LONG = {"data__competitors": 31, "data__directions": 37}  # paragraphs of several windows


def _load(outputs, **changes):
    task = task_of(parse(fine_tuning(SQUAD, **changes)))
    assert isinstance(task, QuestionAnswering)
    return task, task.data.open(prepare(task, outputs))


class Oracle(nn.Module):
    """Knows the targets of the rows of a split, or of the first of each batch only."""

    def __init__(self, task, split, *, rows=10**6):
        super().__init__()
        self._batches = task.data.batches(split)
        self._rows = rows

    def forward(self, tokens_BT, token_type_ids_BT, attention_mask_BT):
        batch = next(self._batches)
        assert torch.equal(batch["tokens"], tokens_BT)
        places_BT = torch.arange(tokens_BT.shape[1]).expand(tokens_BT.shape)
        known_B1 = torch.arange(len(tokens_BT))[:, None] < self._rows
        return tuple(
            9.0 * (known_B1 & (places_BT == batch[end][:, None])) + places_BT / 100
            for end in ("start", "end")
        )


# Answers beside quotes, dashes and accents, in a paragraph of several windows.
PARAGRAPH = (
    "Zo\u00eb's caf\u00e9, \u201cThe  Golden Pot\u201d (1895\u20131943), cost $1,000.50.\nIt stood "
    "in S\u00e3o Paulo \u2014 not in \u4e2d\u56fd \u2014 for fifty years and was loved by many "
    "people who came from far away to sit in it; the last guest was \u0130brahim of Stra\u00dfburg."
)
GOLD = (
    "Zo\u00eb",
    "The  Golden Pot",
    "1895\u20131943",
    "$1,000.50",
    "S\u00e3o Paulo",
    "\u4e2d\u56fd",
    "fifty years",
    "\u0130brahim of Stra\u00dfburg",
    "$1,000.50.\nIt stood",
)


def _own_questions(root):
    questions = [
        {
            "id": f"q{number}",
            "question": f"What number {number}?",
            "answers": [{"text": text, "answer_start": PARAGRAPH.index(text)}, {"text": "no"}],
        }
        for number, text in enumerate(GOLD)
    ]
    other = {"context": "Gold.", "qas": [{**questions[0], "answers": [{"text": "Gold"}]}]}
    root.mkdir()
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        paragraphs = [{"context": PARAGRAPH, "qas": questions[1:]}, other]
        if name.startswith("dev"):
            paragraphs = [{"context": PARAGRAPH, "qas": questions}]
        data = [{"title": "t", "paragraphs": paragraphs}]
        (root / name).write_text(json.dumps({"version": "1.1", "data": data}))
    return root


def test_answers_are_cut_from_the_text_to_the_letter(tmp_path):
    root = _own_questions(tmp_path / "data")
    changes = {"data__source": "local", "data__root": str(root), "task__tokenizer_lines": 3}
    lengths = {"task__sequence_length": 61, "task__batch_tokens": 5 * 61, "task__stride": 23}
    task, facts = _load(tmp_path / "outputs", **changes, **lengths, task__answer_length=37)
    assert facts["test_rows"] > facts["test_questions"] == len(GOLD)
    metrics = task.evaluate(Oracle(task, "test"), "test", CPU)
    [predictions] = task.files().values()
    assert predictions == {f"q{number}": text for number, text in enumerate(GOLD)}
    assert metrics["test/exact_match"] == metrics["test/f1"] == 100.0
    assert set(task.measured) <= metrics.keys()


def test_whoever_knows_every_answer_scores_100_on_the_sample(outputs):
    task, facts = _load(outputs, **LONG)
    assert facts["test_rows"] > facts["test_questions"]
    metrics = task.evaluate(Oracle(task, "test"), "test", CPU)
    assert metrics["test/exact_match"] == metrics["test/f1"] == 100.0
    assert metrics["test/loss"] < 0.1


def test_whoever_knows_every_answer_scores_100_on_real_questions(shared_data, tmp_path):
    root = tmp_path / "data"
    root.mkdir()
    real = json.loads((shared_data / "squad" / "xquad.en.json").read_text())
    real["data"] = real["data"][:7]
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        (root / name).write_text(json.dumps(real))
    changes = {"data__source": "local", "data__root": str(root), "task__vocabulary_size": 2003}
    lengths = {"task__sequence_length": 128, "task__batch_tokens": 31 * 128, "task__stride": 41}
    task, _ = _load(
        tmp_path / "outputs", **changes, **lengths, task__answer_length=97, model__positions=131
    )
    metrics = task.evaluate(Oracle(task, "test"), "test", CPU)
    # An answer may begin or end within a word of the text; the pieces around it then go with it.
    assert metrics["test/exact_match"] > 98
    assert metrics["test/f1"] > 99
    assert metrics["test/bag_of_words_f1"] < 30


def test_the_scores_are_the_official_ones_of_the_predictions_left_beside_the_result(
    outputs, tmp_path
):
    task, _ = _load(outputs)
    metrics = task.evaluate(Oracle(task, "test", rows=2), "test", CPU)
    [(name, predictions)] = task.files().items()
    assert name == "predictions.json"
    path = tmp_path / name
    path.write_text(json.dumps(predictions))
    dataset = outputs / "data" / task.data.folder_name() / "sample" / "dev-v1.1.json"
    official = official_evaluator.evaluate(json.loads(dataset.read_text())["data"], predictions)
    assert 0 < metrics["test/f1"] < 100
    for key in ("exact_match", "f1"):
        assert metrics[f"test/{key}"] == pytest.approx(official[key], abs=1e-9)
    assert score_files(path, dataset) == pytest.approx(official, abs=1e-9)


def test_on_the_sample_words_alone_find_no_answer(outputs):
    task, _ = _load(outputs)
    metrics = task.evaluate(task.build(), "test", CPU)
    assert metrics["test/bag_of_words_exact_match"] < 5
    assert metrics["test/bag_of_words_f1"] < 40


def test_a_window_without_the_answer_points_at_its_first_position(outputs):
    task, _ = _load(outputs, **LONG)
    batches = list(_all_rows(task))
    starts = torch.cat([batch["start"] for batch in batches])
    ends = torch.cat([batch["end"] for batch in batches])
    assert (starts == 0).any()
    assert torch.equal(starts == 0, ends == 0)
    for batch in batches:
        inside = batch["start"] > 0
        rows = torch.arange(len(batch["start"]))[inside]
        for end in ("start", "end"):
            assert (batch["token_type_ids"][rows, batch[end][inside]] == 1).all()
        assert (batch["end"] >= batch["start"]).all()


def _all_rows(task):
    for split in ("validation", "test"):
        yield from task.data.batches(split)


def test_what_stands_beside_a_row_does_not_change_its_outputs(outputs):
    task, _ = _load(outputs)
    model = task.build().double().eval()
    batch = task.data.batch(1)
    length = int(batch["attention_mask"][0].sum())
    alone = {key: batch[key][:1, :length] for key in ("tokens", "token_type_ids", "attention_mask")}
    together_2BT, alone_2BT = task.outputs(model, batch), task.outputs(model, alone)
    torch.testing.assert_close(together_2BT[:, :1, :length], alone_2BT)
    assert (together_2BT[:, 0, length:] == float("-inf")).all()


def test_windows_without_any_known_answer_teach_nothing(outputs):
    task, _ = _load(outputs)
    model = task.build().eval()
    batch = task.data.batch(1)
    nowhere = {**batch, **{end: torch.full_like(batch[end], -100) for end in ("start", "end")}}
    assert summed(task.loss(model, nowhere)).item() == 0.0
    half = {key: torch.cat((batch[key], nowhere[key])) for key in batch}
    torch.testing.assert_close(summed(task.loss(model, half)), summed(task.loss(model, batch)))


def test_a_job_that_is_stopped_leaves_the_same_result_and_predictions(outputs):
    names = {"experiment": "none", "arm": "none", "label": "squad"}
    whole, stopped = (
        RunStore(outputs).freeze(
            {"id": name, "config": fine_tuning(SQUAD), "size": {}, "names": names}
        )
        for name in ("whole", "stopped")
    )
    assert run_job(whole) == 0

    def sabotage():
        at_call(QuestionAnswering, "loss", 5, terminate_self)

    assert run_job(stopped, sabotage) == 75
    assert run_job(stopped) == 0
    assert science(stopped) == science(whole)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param(
            {"task__question_length": 26},
            "task.question_length=26: expected at most 25",
            id="question",
        ),
        pytest.param({"task__stride": 0}, "task.stride=0", id="stride"),
        pytest.param({"model__positions": 23}, "task.sequence_length=29", id="positions"),
    ],
)
def test_an_impossible_config_is_one_sentence(changes, said):
    with pytest.raises(UserError, match=said):
        size(fine_tuning(SQUAD, **changes))
