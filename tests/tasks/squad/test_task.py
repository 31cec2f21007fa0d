"""SQuAD: from questions to the official scores, answers cut from the text as it stands there."""

import json

import pytest
import torch
from torch import nn

from tasks.prepare import open_data
from tasks.squad.__main__ import score_files
from tasks.task import Evaluator
from tasks.training.loop import summed
from tests.tasks.small import SQUAD, opened
from tests.tasks.squad import official_evaluator

CPU = Evaluator(torch.device("cpu"), "32-true")


LONG = {**SQUAD, "data.competitors": 31, "data.directions": 37}  # paragraphs of several windows


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
    changes = {"data.source": "local", "data.root": str(root), "task.tokenizer_lines": 3}
    lengths = {"task.sequence_length": 61, "task.batch_tokens": 5 * 61, "task.stride": 23}
    task = opened(tmp_path, {**SQUAD, **changes, **lengths, "task.answer_length": 37})
    facts = open_data(task, tmp_path)
    assert facts["test_rows"] > facts["test_questions"] == len(GOLD)
    metrics = task.evaluate(Oracle(task, "test"), "test", CPU)
    [predictions] = task.files().values()
    assert predictions == {f"q{number}": text for number, text in enumerate(GOLD)}
    assert metrics["test/exact_match"] == metrics["test/f1"] == 100.0
    assert metrics["test/loss"] < 0.1
    assert set(task.measured) <= metrics.keys()


def test_whoever_knows_every_answer_scores_100_on_real_questions(shared_data, tmp_path):
    root = tmp_path / "data"
    root.mkdir()
    real = json.loads((shared_data / "squad" / "xquad.en.json").read_text())
    real["data"] = real["data"][:7]
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        (root / name).write_text(json.dumps(real))
    changes = {"data.source": "local", "data.root": str(root), "task.vocabulary_size": 2003}
    changes |= {"task.sequence_length": 128, "task.batch_tokens": 31 * 128, "task.stride": 41}
    changes |= {"task.answer_length": 97, "task.tokenizer_lines": 5003, "model.positions": 131}
    task = opened(tmp_path, {**SQUAD, **changes})
    metrics = task.evaluate(Oracle(task, "test"), "test", CPU)
    # An answer may begin or end within a word of the text; the pieces around it then go with it.
    assert metrics["test/exact_match"] > 98
    assert metrics["test/f1"] > 99
    assert metrics["test/bag_of_words_f1"] < 30


def test_the_scores_are_the_official_ones_of_the_predictions_left_beside_the_result(
    shared, tmp_path
):
    task = opened(shared, SQUAD)
    metrics = task.evaluate(Oracle(task, "test", rows=2), "test", CPU)
    [(name, predictions)] = task.files().items()
    assert name == "predictions.json"
    path = tmp_path / name
    path.write_text(json.dumps(predictions))
    dataset = shared / "data" / task.data.folder_name() / "sample" / "dev-v1.1.json"
    official = official_evaluator.evaluate(json.loads(dataset.read_text())["data"], predictions)
    assert 0 < metrics["test/f1"] < 100
    for key in ("exact_match", "f1"):
        assert metrics[f"test/{key}"] == pytest.approx(official[key], abs=1e-9)
    assert score_files(path, dataset) == pytest.approx(official, abs=1e-9)


def test_on_the_sample_words_alone_find_no_answer(shared):
    task = opened(shared, SQUAD)
    metrics = task.evaluate(task.build(), "test", CPU)
    assert metrics["test/bag_of_words_exact_match"] < 5
    assert metrics["test/bag_of_words_f1"] < 40


def test_a_window_without_the_answer_points_at_its_first_position(shared):
    task = opened(shared, LONG)
    batches = [batch for split in ("validation", "test") for batch in task.data.batches(split)]
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


def test_windows_without_any_known_answer_teach_nothing(shared):
    task = opened(shared, SQUAD)
    model = task.build().eval()
    batch = task.data.batch(1)
    nowhere = {**batch, **{end: torch.full_like(batch[end], -100) for end in ("start", "end")}}
    assert summed(task.loss(model, nowhere)).item() == 0.0
    half = {key: torch.cat((batch[key], nowhere[key])) for key in batch}
    torch.testing.assert_close(summed(task.loss(model, half)), summed(task.loss(model, batch)))
