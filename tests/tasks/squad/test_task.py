"""Tests of SQuAD, from the published files to the official scores, also with wrong positions."""

import json

import pytest
import torch
from torch import nn

from tasks.fine_tuning.dataset import Malformed, kept_rows
from tasks.squad.dataset import SQuAD
from tests.tasks.small import SQUAD, evaluated, local, opened
from tests.tasks.squad import official_evaluator

CONTEXT = "The caf\u00e9 sold gold. Gold, not old gold paint, was cheap."


def _answer(text, start):
    return {"text": text, "answer_start": start}


@pytest.mark.parametrize(
    ("answers", "start"),
    [
        ([_answer("gold", 14)], 14),
        ([_answer("gold ", 34)], 34),  # white space left off
        ([_answer("cheap", 3)], -1),
        ([_answer("cheap.", -6)], -1),
        ([_answer("he", True)], -1),  # true is no place
        ([_answer(" ", 8)], -1),
        ([_answer("silver", 1), _answer("gold", 14)], 14),  # the second
    ],
)
def test_an_answer_that_is_not_where_it_says_is_dropped(answers, start):
    row = {"id": "q", "question": "What?", "answers": answers, "context": CONTEXT}
    question = SQuAD().example_of(row)
    assert (question.start, question.text) == (start, "gold" if start > 0 else "")
    assert question.answers == tuple(answer["text"] for answer in answers)
    nowhere = Malformed("no answer is at its answer_start")
    expected = question if start > 0 else nowhere
    assert SQuAD().training_example(row) == expected


def _article(**changes):
    """Return an article with one question and these changes."""
    qa = {"id": "q", "question": "What?", "answers": [_answer("gold", 14)], **changes}
    return {"paragraphs": [{"context": CONTEXT, "qas": [qa]}]}


REASONS = {
    "no answer": _article(answers=[]),
    "a text is missing": _article(question=None),
    "empty text": _article(question="\t"),
    "no id": _article(id=None),
    "a paragraph without questions": {"paragraphs": [{"context": CONTEXT}]},
    "an article without paragraphs": 5,
}


@pytest.mark.parametrize("reason", REASONS)
def test_what_is_no_question_is_dropped_and_counted(tmp_path, reason):
    path = tmp_path / "train.json"
    articles = [_article(id="good"), REASONS[reason]]
    path.write_text(json.dumps({"data": articles}))
    files = {path.name: SQuAD().read_file(path)}
    kept, report = kept_rows(files, SQuAD().example_of)
    assert [question.id for question in kept] == ["good"]
    assert report["dropped"] == {f"train.json: {reason}": 1}


class Oracle(nn.Module):
    """A model that outputs the targets of a split, or only for the first rows of each batch."""

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
    " His re\u0301sume\u0301 was long."
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
    "re\u0301sume\u0301",  # combining marks are in no token
)


# Questions about another paragraph, which fits into one window.
SHORT = [f"s{number}" for number in range(9)]


def _own_questions(root):
    """Write the questions to a folder. The rows of the test split have several lengths."""

    def question(id, *answers):
        return {"id": id, "question": f"What number {id}?", "answers": answers}

    questions = [
        question(f"q{number}", _answer(text, PARAGRAPH.index(text)), {"text": "no"})
        for number, text in enumerate(GOLD)
    ]
    short = [question(id, _answer("Gold", 0)) for id in SHORT]
    root.mkdir()
    for name, own, others in (
        ("train-v1.1.json", questions[1:], short[:1]),
        ("dev-v1.1.json", questions, short),
    ):
        long = {"context": PARAGRAPH, "qas": own}
        data = [{"paragraphs": [long, {"context": "Gold.", "qas": others}]}]
        (root / name).write_text(json.dumps({"data": data}))
    return root


def test_answers_are_cut_from_the_text_to_the_letter(tmp_path):
    """Each batch is as wide as its longest row, and batches of different widths are scored."""
    own = {
        "data": local(_own_questions(tmp_path / "data")),
        "task.tokenizer_lines": 3,
        "task.sequence_length": 61,
        "task.batch_tokens": 5 * 61,
        "task.stride": 23,
        "task.answer_length": 37,
    }
    task = opened(tmp_path, {**SQUAD, **own})
    assert len(task.data.splits["test"]) > len(GOLD) + len(SHORT)
    assert len({batch["tokens"].shape[1] for batch in task.data.batches("test")}) > 1
    metrics = evaluated(task, model=Oracle(task, "test"))
    [predictions] = task.files().values()
    answers = {f"q{number}": text for number, text in enumerate(GOLD)}
    assert predictions == answers | dict.fromkeys(SHORT, "Gold")
    assert metrics["test/exact_match"] == metrics["test/f1"] == 100.0
    assert metrics["test/loss"] < 0.1


def test_the_scores_are_the_official_ones_of_the_predictions_left_beside_the_result(
    shared,
):
    task = opened(shared, SQUAD)
    metrics = evaluated(task, model=Oracle(task, "test", rows=2))
    [(name, predictions)] = task.files().items()
    assert name == "predictions.json"
    dataset = shared / "data" / task.data.folder_name() / "sample" / "dev-v1.1.json"
    articles = json.loads(dataset.read_text())["data"]
    official = official_evaluator.evaluate(articles, predictions)
    assert 0 < metrics["test/f1"] < 100
    for key in ("exact_match", "f1"):
        assert metrics[f"test/{key}"] == pytest.approx(official[key], abs=1e-9)


def test_a_window_without_the_answer_points_at_its_first_position(shared):
    several_windows = {**SQUAD, "data.competitors": 31, "data.directions": 37}
    task, without = opened(shared, several_windows), 0
    for batch in task.data.batches("test"):
        starts, ends = batch["start"], batch["end"]
        inside = starts > 0
        assert torch.equal(inside, ends > 0)
        assert (ends >= starts).all()
        rows = torch.arange(len(starts))[inside]
        for places in (starts, ends):
            assert (batch["token_type_ids"][rows, places[inside]] == 1).all()
        without += int((~inside).sum())
    assert without


def test_windows_without_any_known_answer_teach_nothing(shared):
    task = opened(shared, SQUAD).eval()
    batch = task.data.batch(1)
    unknown = torch.full_like(batch["start"], -100)
    nowhere = {**batch, "start": unknown, "end": unknown}
    assert task.training_step(nowhere, 0).item() == 0.0
    # Without windows, there is no loss, instead of a loss of 0.
    assert task.metrics("test", {"nats": 0.0, "windows": 0.0}) == {}
    half = {key: torch.cat((batch[key], nowhere[key])) for key in batch}
    expected = task.training_step(batch, 0)
    torch.testing.assert_close(task.training_step(half, 0), expected)
