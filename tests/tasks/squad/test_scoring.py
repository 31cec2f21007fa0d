"""The scores, and what `score PREDICTIONS DATASET` prints, are those of the official evaluator."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.squad import scoring
from tasks.squad.__main__ import main
from tests.conftest import ROOT
from tests.tasks.squad import official_evaluator

EXACT = 1e-9

# (prediction, gold answers, exact match, F1), worked out by hand from the official rules.
HARD = {
    "same": ("the Denver Broncos", ["Denver Broncos"], 1, 1.0),
    "article_within_a_word": ("theory another bank", ["ory nother bnk"], 0, 0.0),
    "article_that_is_a_grade": ("grade A", ["grade"], 1, 1.0),
    "articles_only_on_both_sides": ("The", ["the"], 1, 0.0),
    "punctuation_only_against_nothing": ("?!", [""], 1, 0.0),
    "punctuation_joins_words": ("Saint-Denis", ["Saint Denis"], 0, 0.0),
    "currency_sign_is_punctuation": ("$5", ["5"], 1, 1.0),
    "article_glued_by_an_apostrophe": ("l'a", ["la"], 1, 1.0),
    "article_after_a_typographic_quote": (
        "\u201cthe gold\u201d",
        ["\u201c gold\u201d"],
        1,
        1.0,
    ),
    "no_break_space_separates": ("New\u00a0York", ["new york"], 1, 1.0),
    "zero_width_space_does_not": ("New\u200bYork", ["new york"], 0, 0.0),
    "dotted_capital_grows": ("\u0130stanbul", ["i\u0307stanbul"], 1, 1.0),
    "accents_count": ("Beyonce", ["Beyonc\u00e9"], 0, 0.0),
    "repetition_counts_once_each": ("gold gold gold", ["gold gold"], 0, 0.8),
    "order_does_not_matter_to_f1": ("gold of", ["of gold"], 0, 1.0),
    "best_of_several": ("blue and gold", ["gold", "blue", "blue gold paint"], 0, 2 / 3),
    "f1_and_match_of_different_golds": ("a gold", ["gold paint", "GOLD."], 1, 1.0),
}


@pytest.mark.parametrize(
    ("prediction", "answers", "match", "overlap"), HARD.values(), ids=HARD.keys()
)
def test_hard_cases_score_as_worked_out_by_hand(prediction, answers, match, overlap):
    found = scoring.score([("q", answers)], {"q": prediction})
    assert found == pytest.approx(
        {"exact_match": 100 * match, "f1": 100 * overlap}, abs=EXACT
    )
    assert found == official_evaluator.evaluate(
        _dataset([("q", answers)]), {"q": prediction}
    )


# Words that meet: articles, punctuation, both kinds of quotes and dashes, accents, other scripts.
WORDS = st.sampled_from(
    [
        *"a an the The AN A. the, gold Gold gold. 'gold' red-gold theory - $5 5 5.0 _ a_b".split(),
        *"\u2013 \u201c \u201d caf\u00e9 cafe\u0301 \u4e2d\u56fd \u0130 i\u0307 \u00df ss".split(),
        "\u00a0",
        "\u200b",
        "",
    ]
)
ANSWERS = st.one_of(
    st.lists(WORDS, max_size=5).map(" ".join),
    st.lists(WORDS, max_size=4).map("".join),
    st.text(),
)
QUESTIONS = st.lists(
    st.tuples(st.sampled_from("pqrst"), st.lists(ANSWERS, min_size=1, max_size=4)),
    min_size=1,
    max_size=5,
)


@given(QUESTIONS, st.dictionaries(st.sampled_from("pqrst"), ANSWERS))
def test_any_predictions_score_as_the_official_rules_say(questions, predictions):
    expected = official_evaluator.evaluate(_dataset(questions), predictions)
    assert scoring.score(questions, predictions) == pytest.approx(expected, abs=EXACT)


def _dataset(questions):
    qas = [
        {"id": q, "answers": [{"text": text} for text in texts]}
        for q, texts in questions
    ]
    return [{"paragraphs": [{"qas": [qa]} for qa in qas]}]


GOLD = [("a", ["gold", "The"]), ("b", ["the"]), ("c", ["caf\u00e9s of gold"])]
DATASET = {"version": "1.1", "data": _dataset(GOLD)}


def _write(folder, predictions, dataset=DATASET):
    paths = [folder / "predictions.json", folder / "dataset.json"]
    for path, value in zip(paths, (predictions, dataset), strict=True):
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        )
        path.write_text(text, encoding="utf-8", newline="")
    return ["score", *map(str, paths)]


@pytest.mark.parametrize(
    "predictions",
    [
        {"a": "a gold", "b": "An", "c": "caf\u00e9s"},
        {"a": "the", "c": "gold caf\u00e9s", "z": "unasked"},
        {},
    ],
    ids=["all", "missing_and_unasked", "none"],
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
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(ended.stdout) == {"exact_match": 100 / 3, "f1": 100 / 3}
    assert ended.stderr.count("Unanswered question") == 2


def test_another_version_is_scored_with_a_note(tmp_path, capsys):
    assert (
        main(_write(tmp_path, {"a": "", "b": "", "c": ""}, {**DATASET, "version": "9"}))
        == 0
    )
    assert "v-1.1, but got dataset with v-9" in capsys.readouterr().err


def _asked(question, *texts):
    return {"version": "1.1", "data": _dataset([(question, texts)])}


@pytest.mark.parametrize(
    ("predictions", "dataset", "said"),
    [
        pytest.param(
            "{", DATASET, "predictions.json is not JSON", id="truncated_predictions"
        ),
        pytest.param(
            "[" * 9999, DATASET, "predictions.json is not JSON", id="nested_without_end"
        ),
        pytest.param(
            [], DATASET, "has no predictions: expected a JSON object", id="no_object"
        ),
        pytest.param(
            {"a": None},
            DATASET,
            "as the prediction for question a",
            id="prediction_no_text",
        ),
        pytest.param(
            {}, '{"data": [', "dataset.json is not JSON", id="truncated_dataset"
        ),
        pytest.param(
            {}, {"version": "1.1", "data": []}, "there is no question", id="no_question"
        ),
        pytest.param({}, [], "is not a SQuAD v1.1 file", id="no_dataset"),
        pytest.param({}, {"version": "1.1"}, "no 'data'", id="no_data"),
        pytest.param({"a": "x"}, _asked("a"), "no gold answer", id="no_gold_answer"),
        pytest.param({}, _asked("a", 3), "is not a SQuAD v1.1 file", id="gold_no_text"),
        pytest.param(
            {}, _asked(["a"], "x"), "is not a SQuAD v1.1 file", id="id_no_text"
        ),
    ],
)
def test_files_that_cannot_be_scored_are_one_sentence(
    tmp_path, capsys, predictions, dataset, said
):
    assert main(_write(tmp_path, predictions, dataset)) == 1
    printed = capsys.readouterr()
    assert not printed.out
    [sentence] = printed.err.splitlines()
    assert said in sentence


def test_a_file_that_is_not_there_is_one_sentence(tmp_path, capsys):
    assert (
        main(["score", str(tmp_path / "none.json"), str(tmp_path / "none.json")]) == 1
    )
    assert "none.json cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["score"], ["score", "a"], ["grade", "a", "b"]], ids=str
)
def test_another_command_line_says_how_it_goes(capsys, arguments):
    assert main(arguments) == 2
    assert "score PREDICTIONS DATASET" in capsys.readouterr().err
