"""`python -m tasks.squad score PREDICTIONS DATASET` prints what the official evaluator prints."""

import json
import subprocess
import sys

import pytest

from tasks.squad.__main__ import main
from tests.conftest import ROOT
from tests.tasks.squad import official_evaluator

Capture = pytest.CaptureFixture[str]

DATASET = {
    "version": "1.1",
    "data": [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": "The gold of caf\u00e9s",
                    "qas": [
                        {
                            "id": "a",
                            "question": "?",
                            "answers": [{"text": "gold"}, {"text": "The"}],
                        },
                        {"id": "b", "question": "?", "answers": [{"text": "the"}]},
                        {"id": "c", "question": "?", "answers": [{"text": "caf\u00e9s of gold"}]},
                    ],
                }
            ],
        }
    ],
}


def _write(folder, predictions, dataset=DATASET):
    paths = [folder / "predictions.json", folder / "dataset.json"]
    for path, value in zip(paths, (predictions, dataset), strict=True):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        path.write_text(text, encoding="utf-8", newline="")
    return ["score", *map(str, paths)]


@pytest.mark.parametrize(
    "predictions",
    [
        pytest.param({"a": "a gold", "b": "An", "c": "caf\u00e9s"}, id="all"),
        pytest.param(
            {"a": "the", "c": "gold caf\u00e9s", "z": "unasked"}, id="missing_and_unasked"
        ),
        pytest.param({}, id="none"),
    ],
)
def test_the_scores_are_printed_unrounded_as_json(tmp_path, capsys, predictions):
    assert main(_write(tmp_path, predictions)) == 0
    printed = capsys.readouterr()
    expected = official_evaluator.evaluate(DATASET["data"], predictions)
    assert printed.out == json.dumps(expected) + "\n"
    missing = [question for question in "abc" if question not in predictions]
    assert printed.err.splitlines() == [
        f"Unanswered question {question} will receive score 0." for question in missing
    ]


def test_it_is_a_command(tmp_path):
    command = [sys.executable, "-m", "tasks.squad", *_write(tmp_path, {"a": "gold"})]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout) == {"exact_match": 100 / 3, "f1": 100 / 3}
    assert ended.stderr.count("Unanswered question") == 2


def test_another_version_is_scored_with_a_note(tmp_path, capsys):
    assert main(_write(tmp_path, {"a": "", "b": "", "c": ""}, {**DATASET, "version": "9"})) == 0
    assert "v-1.1, but got dataset with v-9" in capsys.readouterr().err


def _asked(**changes):
    qa = {"id": "a", "question": "?", "answers": [{"text": "x"}], **changes}
    return {"version": "1.1", "data": [{"paragraphs": [{"context": "x", "qas": [qa]}]}]}


@pytest.mark.parametrize(
    ("predictions", "dataset", "said"),
    [
        pytest.param("{", DATASET, "predictions.json is not JSON", id="truncated_predictions"),
        pytest.param("[" * 9999, DATASET, "predictions.json is not JSON", id="nested_without_end"),
        pytest.param([], DATASET, "is no JSON object of id and text", id="no_object"),
        pytest.param({"a": None}, DATASET, "no text is predicted for a", id="prediction_no_text"),
        pytest.param({}, '{"data": [', "dataset.json is not JSON", id="truncated_dataset"),
        pytest.param({}, {"version": "1.1", "data": []}, "there is no question", id="no_question"),
        pytest.param({}, [], "is no SQuAD v1.1 file", id="no_dataset"),
        pytest.param({}, {"version": "1.1"}, "no 'data'", id="no_data"),
        pytest.param({"a": "x"}, _asked(answers=[]), "no gold answer", id="no_gold_answer"),
        pytest.param({}, _asked(answers=[{"text": 3}]), "is no SQuAD v1.1 file", id="gold_no_text"),
        pytest.param({}, _asked(id=["a"]), "is no SQuAD v1.1 file", id="id_no_text"),
    ],
)
def test_files_that_cannot_be_scored_are_one_sentence(tmp_path, capsys, predictions, dataset, said):
    assert main(_write(tmp_path, predictions, dataset)) == 1
    printed = capsys.readouterr()
    assert not printed.out
    [sentence] = printed.err.splitlines()
    assert said in sentence


def test_a_file_that_is_not_there_is_one_sentence(tmp_path, capsys):
    assert main(["score", str(tmp_path / "none.json"), str(tmp_path / "none.json")]) == 1
    assert "none.json cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["score"], ["score", "a"], ["grade", "a", "b"]], ids=str)
def test_another_command_line_says_how_it_goes(capsys, arguments):
    assert main(arguments) == 2
    assert "score PREDICTIONS DATASET" in capsys.readouterr().err
